// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options are the settings of a store; nil stands for the defaults.
type Options struct {
	// Prefix starts the name of every lock, as "/locks/". The others must use the same. Default none.
	Prefix string
	// Namespace starts the keys that the others do not read: sessions and tombstones. It must not be in
	// the range of a lock. Default etcdstore.DefaultNamespace.
	Namespace string
	// MaxTTL is the longest TTL of a session. Default etcdstore.DefaultMaxTTL.
	MaxTTL time.Duration
	// FencedPeers states that every program that shares these locks checks tokens where it writes:
	// the create revision of its key times 16384. New then accepts Require: Correctness. Default false.
	FencedPeers bool
}

// Store is a store on an etcd cluster. Make one with New or Open. It is safe for concurrent use.
type Store struct {
	cluster *lease.Cluster
	prefix  string
	fenced  bool
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.OpenedStore = (*Store)(nil)
	_ driver.Checker     = (*Store)(nil)
)

// New returns a store that uses the client, which stays the caller's. A nil opts is fine. New does no I/O.
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	o := opts.copied()
	c, err := lease.New("concurrencystore", client, lease.Options{Namespace: o.Namespace, MaxTTL: o.MaxTTL})
	if err != nil {
		return nil, err
	}
	return on(c, o)
}

func (opts *Options) copied() Options {
	if opts == nil {
		return Options{}
	}
	return *opts
}

// on returns a store on a cluster.
func on(c *lease.Cluster, o Options) (*Store, error) {
	if space := c.Keys.All(); !apart(o.Prefix, space) {
		return nil, fmt.Errorf("concurrencystore: the keys of sessions begin with %q and those of locks with %q, so that one could be taken for the other; "+
			"set Options.Namespace (namespace in a URL) to one without a slash that does not begin the prefix", space, o.Prefix)
	}
	return &Store{cluster: c, prefix: o.Prefix, fenced: o.FencedPeers}, nil
}

// apart reports whether no name of a lock has the keys of the namespace in its range, and not all names are in the namespace.
func apart(prefix, space string) bool {
	rest, inside := strings.CutPrefix(space, prefix)
	return !strings.HasPrefix(prefix, space) && (!inside || strings.LastIndex(rest, "/") <= 0)
}

// named returns the range of the keys of a lock, or why the name cannot be one.
func (s *Store) named(name string) (under string, err error) {
	under = s.under(name)
	switch {
	case s.prefix+name == "":
		return "", fmt.Errorf("a lock needs a name, or the store a prefix: %w", driver.ErrRefused)
	case strings.HasPrefix(under, s.cluster.Keys.All()):
		return "", fmt.Errorf("the name %q is among the keys of sessions; take another name or namespace: %w", name, driver.ErrRefused)
	}
	return under, nil
}

// under is the prefix of the keys of a lock.
func (s *Store) under(name string) string { return s.prefix + name + "/" }

// Close ends what the store runs in the background, and closes the client if the store owns it, which is so
// after Open.
func (s *Store) Close() error { return s.cluster.Close() }

// Check asks the cluster whether it is fit to keep locks, as etcdstore does.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.cluster.Check(ctx) }

// What Guarantees and a refusal of Require: Correctness say.
const (
	assumes = " Other programs share these locks. One that works on after its session has ended is rejected only by a check of its token, the create revision of its key times 16384."
	advice  = "a program that shares these locks through package concurrency and writes without a token cannot be fenced; if all of them check the create revision of their key times 16384, " +
		"set fenced_peers=true in the URL (Options.FencedPeers); otherwise use etcd:// (in Go: etcdstore) when only services on fencelock share the lock"
)

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := s.cluster.Caps()
	c.Assumes += assumes
	c.Advice = advice
	if !s.fenced {
		c.Fencing = driver.BestEffort
	}
	return c
}

// Shard implements driver.Store.
func (s *Store) Shard(string) string { return "0" }

// Open implements driver.Store. A session that was open before finds its claims again.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	se := &session{Session: s.cluster.NewSession(req.ID), s: s, claims: newClaims()}
	renewal, err := se.Session.Open(ctx, req)
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	if err := se.own(ctx); err != nil {
		// The lease ends by itself. A revocation that arrived late would end the session that the next Open finds.
		return nil, driver.Renewal{}, s.cluster.Fail(ctx, "open", err, lease.Writing)
	}
	return se, renewal, nil
}

// read sends reads of one moment.
func (s *Store) read(ctx context.Context, ops ...*pb.RequestOp) (*pb.TxnResponse, error) {
	return s.cluster.Commit(ctx, nil, nil, ops, nil)
}
