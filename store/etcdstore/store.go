// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// DefaultNamespace is the namespace unless Options say otherwise.
	DefaultNamespace = lease.DefaultNamespace
	// DefaultMaxTTL is the longest session allowed unless Options say otherwise.
	DefaultMaxTTL = lease.DefaultMaxTTL
)

// Options are the settings of a store; nil stands for the defaults.
type Options struct {
	// Namespace starts all keys. Stores with different namespaces share nothing.
	// Default DefaultNamespace.
	Namespace string
	// MaxTTL is the longest TTL of a session. Default DefaultMaxTTL.
	MaxTTL time.Duration
}

// Store is a store on an etcd cluster. Make one with New or Open. It is safe for
// concurrent use.
type Store struct {
	cluster *lease.Cluster
	keys    lock.Space

	mu sync.Mutex
	// holds has when the leases of holds were asked for by this process: etcd
	// returns what is left of a lease in whole seconds only.
	holds map[int64]hold
}

var _ driver.Store = (*Store)(nil)

// New returns a store that uses the client, which stays the caller's: the store
// never closes it. A nil opts is fine. New does no I/O. It rejects a client whose KV was
// replaced, as namespace.NewKV does it: set Options.Namespace instead.
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	return on(lease.New("etcdstore", client, opts.settings()))
}

// on returns the store on a cluster.
func on(c *lease.Cluster, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{cluster: c, keys: c.Keys, holds: map[int64]hold{}}, nil
}

func (opts *Options) settings() lease.Options {
	if opts == nil {
		return lease.Options{}
	}
	return lease.Options(*opts)
}

// Close ends what the store runs in the background, and closes the client if the store owns it,
// which is so after Open.
func (s *Store) Close() error { return s.cluster.Close() }

// Check asks every member that the client knows whether it is fit to keep locks, and
// returns what is not, with what to change; an empty result is a good one. It writes
// nothing. What the user's permissions hide is a finding, too. The error means that no
// member answered at all. The codes are alarm, jwt, leader, learner, member, quota,
// revoke, unchecked, unreachable, version; findings without a Node are about the cluster.
//
// Clocks are not checked: etcd does not return the time, and its leases do not depend on
// the time of day.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.cluster.Check(ctx) }

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := s.cluster.Caps()
	c.Contended, c.Linger, c.Shared, c.Reentry, c.Hold, c.Listing = driver.NoticeAtOnce, true, true, true, true, true
	return c
}

// Shard implements driver.Store. All names are on one shard: a cluster keeps all
// its keys in one log.
func (s *Store) Shard(string) string { return "0" }

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, err := s.inspect(ctx, name)
	if err != nil {
		return driver.Status{}, s.cluster.Fail(ctx, "inspect", err, lease.Reading)
	}
	return st, nil
}
