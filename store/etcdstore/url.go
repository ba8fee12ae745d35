// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("etcd")...) }

// Open connects to the cluster at a URL and returns a store that owns its client: Store.Close
// closes it. The package comment has the grammar of the URLs.
//
// Open asks the cluster once, so that a wrong address or password is reported now. It gives up
// when ctx ends, or after dial_timeout; the store does not use ctx after that. Errors never show
// a password.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	form := storekit.Form{Package: "etcdstore", Scheme: "etcd", Port: lease.Port}
	return on(lease.Open(ctx, form, url, opts.settings(), nil))
}
