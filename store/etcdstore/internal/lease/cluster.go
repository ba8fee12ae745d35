// SPDX-License-Identifier: Apache-2.0

// Package lease has what the stores on etcd share: a cluster and its URL, sessions as leases with a key that other
// transactions compare, and transactions that notice another cluster or older data.
package lease

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// MinTTL is the resolution of etcd's leases.
	MinTTL = time.Second
	// DefaultMaxTTL is the longest session allowed unless Options say otherwise.
	DefaultMaxTTL = time.Minute
	// DefaultNamespace is the namespace unless Options say otherwise.
	DefaultNamespace = "fencelock"
	// maxNamespace bounds the length of a namespace.
	maxNamespace = 128
)

// Options are those of etcdstore.
type Options struct {
	Namespace string
	MaxTTL    time.Duration
}

// Cluster is an etcd cluster on which a store keeps its sessions.
type Cluster struct {
	Client *clientv3.Client
	// KV and Leases are those of the client. A call that a member refuses because it serves nobody now goes to the next one.
	KV     pb.KVClient
	Leases pb.LeaseClient
	Keys   lock.Space
	MaxTTL time.Duration

	pkg       string // begins errors
	owned     bool   // Open made the client
	beats     heartbeats
	revisions revisions
}

// New returns a cluster for a store of a package. The client stays the caller's. It does no I/O.
func New(pkg string, client *clientv3.Client, opts Options) (*Cluster, error) {
	if client == nil {
		return nil, errors.New(pkg + ": New needs a client, for example from clientv3.New(clientv3.Config{Endpoints: addrs})")
	}
	o, err := opts.filled(pkg)
	if err != nil {
		return nil, err
	}
	if part := replaced(client); part != "" {
		return nil, fmt.Errorf("%s: the %s of the client was replaced, for example by namespace.New%[2]s; "+
			"pass a client as clientv3.New returns it, and set Options.Namespace", pkg, part)
	}
	members := func() int { return len(client.Endpoints()) }
	leases := leasesElsewhere{clientv3.RetryLeaseClient(client), members}
	return &Cluster{Client: client, KV: kvElsewhere{clientv3.RetryKVClient(client), members}, Leases: leases,
		Keys: lock.NewSpace(o.Namespace), MaxTTL: o.MaxTTL, pkg: pkg, beats: heartbeats{leases: leases, members: members, idle: o.MaxTTL}}, nil
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

// filled returns the options with defaults, or what is wrong with them.
func (o Options) filled(pkg string) (Options, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if len(o.Namespace) > maxNamespace {
		return o, fmt.Errorf("%s: Options.Namespace has %d bytes; take one of at most %d", pkg, len(o.Namespace), maxNamespace)
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = DefaultMaxTTL
	}
	if o.MaxTTL < MinTTL || o.MaxTTL%time.Second != 0 {
		return o, fmt.Errorf("%s: Options.MaxTTL is %v; etcd's leases last whole seconds, at least %v", pkg, o.MaxTTL, MinTTL)
	}
	return o, nil
}

// Close ends what runs in the background, and closes the client if Open made it.
func (c *Cluster) Close() error {
	c.beats.close()
	if !c.owned {
		return nil
	}
	return c.Client.Close()
}

// Caps are what every store on etcd has: the cluster keeps claims in the order of their revisions.
func (c *Cluster) Caps() driver.Caps {
	return driver.Caps{
		Engine: "etcd", Fencing: driver.Strict, Durability: driver.Durable, Queue: true, Push: true, MinTTL: MinTTL, MaxTTL: c.MaxTTL,
		Assumes: "Tokens keep increasing through a restore from a snapshot if the restore raises the revision (--bump-revision).",
	}
}

// Fail turns what the client returned into the words of the contract.
func (c *Cluster) Fail(ctx context.Context, op string, err error, k Kind) error {
	return failed(ctx, c.pkg, op, err, k)
}

// revisions reports whether the cluster that answers is the one that answered before.
type revisions struct {
	revision atomic.Int64 // the highest one seen
}

// high is the revision that an answer to a call that is sent now must have reached.
func (m *revisions) high() int64 { return m.revision.Load() }

// see takes the header of a linearizable answer to a call that was sent when high
// was the highest revision seen.
func (m *revisions) see(h *pb.ResponseHeader, high int64) error {
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
