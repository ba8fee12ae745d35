// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
)

// A transaction is executed by one EXEC, a keep-alive without a transaction has one ZADD, and a release without a
// script reads once how long the list is. Scripts of contended names may read that, too.
var (
	listRequests    = []string{"subscribe", "exec", "llen", "zadd"}
	listParts       = []string{"multi", "lmove", "rpush", "lrem", "hmget", "script", "time", "zrangebyscore", "zcount"}
	listOvercounted = []string{"llen", "zadd"}
)

// FencelockRueidis is fencelock on rueidisstore.
var FencelockRueidis = &Candidate{
	Name: "fencelock-rueidis", Server: "redis", Bare: "bare-rueidis", Settings: "defaults: TTL 15 s, one bucket, no grace", Waits: true,
	Plain: listRequests, Parts: listParts, Overcounted: listOvercounted,
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
