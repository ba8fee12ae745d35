// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
	"github.com/fencelock/fencelock/store/etcdstore"
)

func init() { driver.Register(opener, "etcd-concurrency", "etcds-concurrency") }

// opener is Open for driver.OpenStore.
func opener(ctx context.Context, url string, _ driver.OpenOptions) (driver.OpenedStore, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

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
	scheme, rest, ok := strings.Cut(url, "://")
	scheme, isOurs := strings.CutSuffix(scheme, "-concurrency")
	if !ok || !isOurs {
		return nil, errors.New("concurrencystore: the URL must begin with etcd-concurrency:// or etcds-concurrency:// (it is not shown, it may hold a password)")
	}
	o := opts.copied()
	rest, err := storeurl.Parameters{
		"prefix":       storeurl.Option("Prefix", &o.Prefix, storeurl.Text),
		"fenced_peers": storeurl.Option("FencedPeers", &o.FencedPeers, storeurl.Bool),
		"namespace":    storeurl.Option("Namespace", &o.Namespace, storeurl.Text),
		"max_ttl":      storeurl.Option("MaxTTL", &o.MaxTTL, storeurl.Duration),
	}.Split("concurrencystore", rest)
	if err != nil {
		return nil, err
	}
	base, err := etcdstore.Open(ctx, scheme+"://"+rest, &etcdstore.Options{Namespace: o.Namespace, MaxTTL: o.MaxTTL})
	if err != nil {
		return nil, fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	s, err := over(base, o)
	if err != nil {
		_ = base.Close()
		return nil, err
	}
	return s, nil
}
