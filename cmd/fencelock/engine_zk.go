// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/fencelock/fencelock/zkstore"
)

var _ = register(&engine{
	schemes: []string{"zk"},
	form:    "zk://[user:password@]host[:port][,host[:port]...][/root]",
	note:    "ZooKeeper 3.5 or later; name all servers; the namespace is the root node",
	open: func(ctx context.Context, url string, s settings) (*opened, error) {
		if s.grace || s.buckets != 0 {
			return nil, usage("grace and buckets are not for ZooKeeper: it does not forget, and is one shard")
		}
		opts := &zkstore.Options{MaxTTL: s.maxTTL}
		if s.namespace != "" {
			opts.Root = "/" + s.namespace
		}
		store, err := zkstore.Open(ctx, url, opts)
		if err != nil {
			return nil, err
		}
		return &opened{Store: store, close: store.Close}, nil
	},
})
