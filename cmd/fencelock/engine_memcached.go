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
		if s.grace || s.buckets != 0 || s.maxTTL != 0 {
			return nil, usage("grace, buckets and max_ttl are not for memcached: it promises nothing over a loss of memory")
		}
		store, err := memcachestore.Open(ctx, url, &memcachestore.Options{Namespace: s.namespace})
		if err != nil {
			return nil, err
		}
		return &opened{Store: store, close: store.Close, check: func(ctx context.Context) ([]finding, error) {
			found, err := store.Check(ctx)
			var all []finding
			for _, f := range found {
				all = append(all, finding{Severity: f.Severity.String(), Code: f.Code, Node: f.Node, Reason: f.Reason, Fix: f.Fix})
			}
			return all, err
		}}, nil
	},
})
