// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"

	"github.com/fencelock/fencelock/store/redisstore"
)

// FencelockGoRedis is fencelock on redisstore, with go-redis.
var FencelockGoRedis = &Candidate{
	Name: "fencelock-goredis", Server: "redis", Bare: "bare-goredis", Settings: "defaults: TTL 15 s, one bucket, no grace", Waits: true,
	Plain: listRequests, Parts: listParts, Overcounted: listOvercounted,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client := newGoRedis(at.Addr)
		store, err := redisstore.New(client, nil)
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		return openOurs(store, n, func() { _ = client.Close() })
	},
}
