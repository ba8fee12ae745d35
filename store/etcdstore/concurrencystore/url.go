// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("etcd-concurrency")...) }

// Open connects to the cluster at a URL and returns a store that owns its client: Store.Close closes it. The URL is that of
// etcdstore.Open with another scheme, etcd-concurrency or etcds-concurrency, and two more parameters:
//
//	prefix        Options.Prefix
//	fenced_peers  Options.FencedPeers
//
//	etcd-concurrency://one:2379,two:2379?prefix=/locks/
//
// A setting that is in opts, too, must have the same value there.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	if !slices.ContainsFunc(driver.Variants("etcd-concurrency"), func(scheme string) bool { return strings.HasPrefix(url, scheme+"://") }) {
		return nil, errors.New("concurrencystore: the URL must begin with etcd-concurrency:// or etcds-concurrency:// (it is not shown, it may hold a password)")
	}
	o := opts.copied()
	form := storekit.Form{Package: "concurrencystore", Scheme: "etcd", Kinds: map[string]string{"concurrency": lease.Port}}
	c, err := lease.Open(ctx, form, url, lease.Options{Namespace: o.Namespace, MaxTTL: o.MaxTTL}, storekit.Parameters{
		"prefix":       storekit.Option("Prefix", &o.Prefix, storekit.Text),
		"fenced_peers": storekit.Option("FencedPeers", &o.FencedPeers, storekit.Bool),
	})
	if err != nil {
		return nil, err
	}
	s, err := on(c, o)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return s, nil
}
