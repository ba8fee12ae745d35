// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/redisstore"
)

var _ = register(&engine{
	schemes: []string{"redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster",
		"valkey", "valkeys", "valkey-sentinel", "valkeys-sentinel", "valkey-cluster", "valkeys-cluster"},
	form: `redis://[user[:password]@]host[:port][/database]
redis-sentinel://host[:port][,host[:port]...]/master[/database]
redis-cluster://host[:port][,host[:port]...]`,
	note: "Redis 7.0 or later, and Valkey: valkey may stand for redis; with rediss or valkeys\n" +
		"      over TLS",
	open: openRedis,
})

// redis are the settings of a namespace in Redis.
func (s settings) redis() *redisstore.Options {
	return &redisstore.Options{
		Namespace: s.namespace, Grace: s.grace, MaxTTL: s.maxTTL, Buckets: s.buckets, Accept: s.accept,
		Warn: func(f driver.Finding) {
			if f.Severity != driver.Note {
				s.warn(f.String())
			}
		},
	}
}

func openRedis(ctx context.Context, url string, s settings) (*opened, error) {
	store, err := redisstore.Open(ctx, url, s.redis())
	if err != nil {
		return nil, err
	}
	return &opened{Store: store, close: store.Close, graceFix: addGrace, check: store.Check}, nil
}
