// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/memstore"
)

var _ = register(&engine{
	schemes: []string{"mem"},
	form:    "mem://",
	note:    "the memory of this one process, for trying out: it excludes nobody else",
	open: func(_ context.Context, _ string, s settings) (*opened, error) {
		if s.buckets != 0 || s.accept != nil {
			return nil, usage("buckets and accept are not for mem://: it is one shard, and not refused")
		}
		return &opened{
			Store: memstore.New(&memstore.Options{Grace: s.grace, MaxTTL: s.maxTTL}),
			close: func() error { return nil }, graceFix: addGrace,
			check: func(context.Context) ([]driver.Finding, error) {
				return []driver.Finding{{Severity: driver.Danger, Code: "one-process", Reason: "mem:// is the memory of this process: no other process sees its locks",
					Fix: "use a server, for example redis://localhost:6379"}}, nil
			},
		}, nil
	},
})
