// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/fencelock/fencelock/etcdstore"
)

var _ = register(&engine{
	schemes: []string{"etcd", "etcds"},
	form:    "etcd://[user:password@]host[:port][,host[:port]...][/namespace]",
	note:    "etcd 3.4 or later; name all members; with etcds over TLS",
	open: func(ctx context.Context, url string, s settings) (*opened, error) {
		if s.grace || s.buckets != 0 || s.accept != nil {
			return nil, usage("grace, buckets and accept are not for etcd: it does not forget, is one shard, and none is refused")
		}
		store, err := etcdstore.Open(ctx, url, &etcdstore.Options{Namespace: s.namespace, MaxTTL: s.maxTTL})
		if err != nil {
			return nil, err
		}
		return &opened{Store: store, close: store.Close, check: store.Check}, nil
	},
})
