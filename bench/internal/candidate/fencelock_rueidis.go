// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
)

// redisRequests are the plain commands that stand for one request of ours each: a transaction is
// executed by one EXEC, and a release asks once for the length of the list. Scripts may ask
// for it, too, which counts against us.
var redisRequests = []string{"subscribe", "exec", "llen"}

// FencelockRueidis is fencelock on rueidisstore.
var FencelockRueidis = &Candidate{
	Name: "fencelock-rueidis", Server: "redis", Bare: "bare-rueidis", Settings: "defaults: TTL 15 s, one bucket, no grace", Plain: redisRequests, Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		store, closeStore, err := RueidisStore(at.Addr, n)
		if err != nil {
			return nil, err
		}
		return openOurs(store, n, closeStore)
	},
}

// RueidisStore opens the store of FencelockRueidis, for so many lockers.
func RueidisStore(addr string, lockers int) (store driver.Store, closeStore func(), err error) {
	client, err := newRueidis(addr, lockers)
	if err != nil {
		return nil, nil, err
	}
	store, err = rueidisstore.New(client, nil)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return store, client.Close, nil
}
