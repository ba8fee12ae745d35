// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	"github.com/fencelock/fencelock/store/etcdstore/internal/share"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// DefaultNamespace is the namespace unless Options say otherwise.
	DefaultNamespace = "fencelock"
	// DefaultMaxTTL is the longest session allowed unless Options say otherwise.
	DefaultMaxTTL = time.Minute
	// minTTL is the resolution of etcd's leases.
	minTTL = time.Second
	// maxNamespace bounds the length of a namespace.
	maxNamespace = 128
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
	client    *clientv3.Client
	kv        pb.KVClient
	leases    pb.LeaseClient
	owned     bool
	keys      lock.Space
	maxTTL    time.Duration
	beats     heartbeats
	revisions revisions
	handles   handles

	mu sync.Mutex
	// holds has when the leases of holds were asked for by this process: etcd
	// returns what is left of a lease in whole seconds only.
	holds map[int64]hold
}

var _ driver.Store = (*Store)(nil)

// New returns a store that uses the client, which stays the caller's: the store
// never closes it. A nil opts is fine. New does no I/O.
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("etcdstore: New needs a client, for example from clientv3.New(clientv3.Config{Endpoints: addrs})")
	}
	o, err := opts.filled()
	if err != nil {
		return nil, err
	}
	if part := replaced(client); part != "" {
		return nil, fmt.Errorf("etcdstore: the %s of the client was replaced, for example by namespace.New%s; "+
			"pass a client as clientv3.New returns it, and set Options.Namespace", part, part)
	}
	members := func() int { return len(client.Endpoints()) }
	leases := leasesElsewhere{clientv3.RetryLeaseClient(client), members}
	return &Store{client: client, kv: kvElsewhere{clientv3.RetryKVClient(client), members}, leases: leases,
		beats: heartbeats{leases: leases, members: members, idle: o.MaxTTL},
		keys:  lock.NewSpace(o.Namespace), maxTTL: o.MaxTTL, holds: map[int64]hold{}}, nil
}

// replaced returns which part of a client is not as clientv3.New makes it, or "". Keys, the keys of leases and watches would
// have different names.
func replaced(client *clientv3.Client) string {
	kv, leases, watcher := clientv3.NewKV(client), clientv3.NewLease(client), clientv3.NewWatcher(client)
	defer leases.Close()
	defer watcher.Close()
	for _, part := range []struct {
		name      string
		is, plain any
	}{{"KV", client.KV, kv}, {"Lease", client.Lease, leases}, {"Watcher", client.Watcher, watcher}} {
		if reflect.TypeOf(part.is) != reflect.TypeOf(part.plain) {
			return part.name
		}
	}
	return ""
}

func init() {
	share.PartsOf = func(store driver.Store) share.Parts {
		s := store.(*Store)
		drop := func(se driver.Session) { s.handles.drop(se.(*session)) }
		return share.Parts{Client: s.client, KV: clientv3.NewKVFromKVClient(s.kv, s.client), Leases: s.leases, Keys: s.keys, Revisions: &s.revisions, Drop: drop}
	}
}

// filled returns the options with defaults, or what is wrong with them.
func (opts *Options) filled() (Options, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if len(o.Namespace) > maxNamespace {
		return o, fmt.Errorf("etcdstore: Options.Namespace has %d bytes; take one of at most %d", len(o.Namespace), maxNamespace)
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = DefaultMaxTTL
	}
	if o.MaxTTL < minTTL || o.MaxTTL%time.Second != 0 {
		return o, fmt.Errorf("etcdstore: Options.MaxTTL is %v; etcd's leases last whole seconds, at least %v", o.MaxTTL, minTTL)
	}
	return o, nil
}

// Close ends what the store runs in the background, and closes the client if the store owns it,
// which is so after Open.
func (s *Store) Close() error {
	s.beats.close()
	if !s.owned {
		return nil
	}
	return s.client.Close()
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	return driver.Caps{
		Engine: "etcd", Fencing: driver.Strict, Durability: driver.Durable,
		Queue: true, Push: true, Wanted: driver.NoticeAtOnce, Linger: true, Shared: true, Reentry: true, Hold: true, Listing: true,
		MinTTL: minTTL, MaxTTL: s.maxTTL,
		Assumes: "Tokens keep increasing through a restore from a snapshot if the restore raises the revision (--bump-revision).",
	}
}

// Shard implements driver.Store. All names are on one shard: a cluster keeps all
// its keys in one log.
func (s *Store) Shard(string) string { return "0" }

// revisions reports whether the cluster that answers is the one that answered before.
type revisions struct {
	revision atomic.Int64 // the highest one seen
}

// High is the revision that an answer to a call that is sent now must have reached.
func (m *revisions) High() int64 { return m.revision.Load() }

// See takes the header of a linearizable answer to a call that was sent when high
// was the highest revision seen.
func (m *revisions) See(h *pb.ResponseHeader, high int64) error {
	for {
		seen := m.revision.Load()
		if h.Revision <= seen || m.revision.CompareAndSwap(seen, h.Revision) {
			break
		}
	}
	if h.Revision < high {
		return fmt.Errorf("the cluster is at revision %d and was at %d: it was restored from an older snapshot: %w",
			h.Revision, high, driver.ErrReset)
	}
	return nil
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, err := s.inspect(ctx, name)
	if err != nil {
		return driver.Status{}, fail(ctx, "inspect", err, reading)
	}
	return st, nil
}
