// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/fencelock/fencelock/memcachestore"
)

var _ = register(&engine{
	schemes: []string{"memcached", "memcacheds"},
	form:    "memcached://host[:port]",
	note:    "for efficiency only: no fencing tokens; with memcacheds over TLS",
	open: func(ctx context.Context, url string, s settings) (*opened, error) {
		if s.grace || s.buckets != 0 || s.maxTTL != 0 || s.accept != nil {
			return nil, usage("grace, buckets, max_ttl and accept are not for memcached: it promises nothing over a loss of memory, and none is refused")
		}
		store, err := memcachestore.Open(ctx, url, &memcachestore.Options{Namespace: s.namespace})
		if err != nil {
			return nil, err
		}
		return &opened{Store: store, close: store.Close, check: store.Check}, nil
	},
})
