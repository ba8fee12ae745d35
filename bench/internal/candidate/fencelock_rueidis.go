// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"

	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
)

// FencelockRueidis is fencelock on rueidisstore.
var FencelockRueidis = &Candidate{
	Name: "fencelock-rueidis", Server: "redis", Bare: "bare-rueidis", Settings: "defaults: TTL 15 s, one bucket, no grace", Plain: []string{"subscribe"}, Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client, err := newRueidis(at.Addr, n)
		if err != nil {
			return nil, err
		}
		store, err := rueidisstore.New(client, nil)
		if err != nil {
			client.Close()
			return nil, err
		}
		return openOurs(store, n, client.Close)
	},
}
