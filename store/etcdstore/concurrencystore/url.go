// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/etcdstore"
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
	scheme, rest, ok := strings.Cut(url, "://")
	scheme, isOurs := strings.CutSuffix(scheme, "-concurrency")
	if !ok || !isOurs {
		return nil, errors.New("concurrencystore: the URL must begin with etcd-concurrency:// or etcds-concurrency:// (it is not shown, it may hold a password)")
	}
	o := opts.copied()
	rest, err := storekit.Parameters{
		"prefix":       storekit.Option("Prefix", &o.Prefix, storekit.Text),
		"fenced_peers": storekit.Option("FencedPeers", &o.FencedPeers, storekit.Bool),
		"namespace":    storekit.Option("Namespace", &o.Namespace, storekit.Text),
		"max_ttl":      storekit.Option("MaxTTL", &o.MaxTTL, storekit.Duration),
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
