// SPDX-License-Identifier: Apache-2.0

package curatorstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/zkstore/internal/zktree"
)

// Recipe is the kind of lock that a store shares. A path has one kind: locks of two recipes do not
// see each other, in Curator neither. The store returns an error where it meets another one.
type Recipe uint8

const (
	// Mutex shares InterProcessMutex and LeaderSelector of Curator, zk.Lock of go-zookeeper, and
	// Lock and Election of kazoo with extra_lock_patterns=["-lock-"].
	Mutex Recipe = iota
	// ReadWrite shares InterProcessReadWriteLock: Mutex and RWMutex.Lock take its writeLock(),
	// RWMutex.RLock its readLock().
	ReadWrite
	// Latch shares LeaderLatch: Mutex and Election take part in the leadership.
	Latch
)

// DefaultSessions is where the sessions of Go processes are kept.
const DefaultSessions = zktree.DefaultRoot

// Options of a Store. The zero value is good for most; nil is the same. Bad values make New fail.
type Options struct {
	// Root is put before the name of every lock, with a slash between them: with the root /locks
	// the lock orders/42 is at /locks/orders/42. It has the namespace of the CuratorFramework, if
	// there is one. Default "": the name is the path without its first slash.
	Root string
	// Recipe is the kind of lock that Java uses at these paths. Default Mutex.
	Recipe Recipe
	// NameMapper makes the rest of a path from the name of a lock. It must make different paths of
	// different names. List is not supported then. Default: the name as it is.
	NameMapper func(name string) string
	// PersistentParents creates missing nodes above a claim as persistent ones, as Curator does
	// with dontUseContainerParents. Default false: as containers, which the ensemble removes.
	PersistentParents bool
	// Revoke lets a waiter ask holders in Java to release, if they have called makeRevocable: it
	// writes __REVOKE__ to their node, as Revoker.attemptRevoke does. A node that it may not write to
	// is left as it is, and so is every node of a Latch, whose data is an id. Default false.
	Revoke bool
	// FencedPeers states that every program that shares these locks checks tokens where it writes:
	// the czxid of its node times 512. New then accepts Require: Correctness. Default false.
	FencedPeers bool
	// Sessions is the node below which the sessions of Go processes are kept. All Go processes that
	// share locks must use the same. Default DefaultSessions.
	Sessions string
	// TickTime, MinTTL, MaxTTL and Dial are those of zkstore.
	TickTime       time.Duration
	MinTTL, MaxTTL time.Duration
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	// Auth is "user:password" for the scheme digest. Everything is then created so that only this
	// user can use it: Java needs the same user and an ACLProvider. Default: every client can.
	Auth string
}

// Store is a store that shares locks with Curator. Make one with New or Open. It is safe for
// concurrent use.
type Store struct{ *inner }

type inner = zktree.Store

var _ driver.Store = (*Store)(nil)

// New returns a store on the servers, each as host:port. A nil opts is fine. It does no I/O.
func New(servers []string, opts *Options) (*Store, error) {
	o, err := opts.tree()
	if err != nil {
		return nil, err
	}
	s, err := zktree.New(servers, o)
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// tree returns the options of the package that does the work.
func (o *Options) tree() (zktree.Options, error) {
	if o == nil {
		o = &Options{}
	}
	sessions := o.Sessions
	if sessions == "" {
		sessions = DefaultSessions
	}
	switch {
	case o.Root != "" && (!strings.HasPrefix(o.Root, "/") || strings.HasSuffix(o.Root, "/")):
		return zktree.Options{}, fmt.Errorf("curatorstore: Options.Root is %q; write a path such as /locks, with a slash at its beginning only", o.Root)
	case o.Recipe > Latch:
		return zktree.Options{}, fmt.Errorf("curatorstore: Options.Recipe is %d; it must be Mutex, ReadWrite or Latch", o.Recipe)
	case !zktree.GoodRoot(sessions):
		return zktree.Options{}, fmt.Errorf("curatorstore: Options.Sessions is %q; write a path such as /fencelock, of letters, digits, dots, hyphens and underscores", sessions)
	}
	layout := &zktree.Curator{
		Root: o.Root, Recipe: zktree.Recipe(o.Recipe), Map: o.NameMapper, Persistent: o.PersistentParents, Revoke: o.Revoke, Sessions: sessions,
		Fencing: driver.BestEffort, Assumes: assumes, Advice: advice,
	}
	if o.FencedPeers {
		layout.Fencing = driver.Strict
	}
	return zktree.Options{
		Package: "curatorstore", Layout: layout, Root: sessions,
		TickTime: o.TickTime, MinTTL: o.MinTTL, MaxTTL: o.MaxTTL, Auth: o.Auth, Dial: o.Dial,
	}, nil
}

// What Guarantees and a refusal of Require: Correctness say.
const (
	advice = "a service that shares these locks through Curator and writes without a token cannot be fenced; if all of them check the czxid of their node times 512, " +
		"set fenced_peers=true in the URL (Options.FencedPeers); otherwise use zk:// (in Go: zkstore) when only services on fencelock share the lock"
	assumes = "Other programs share these locks. A Java process that ignores SUSPENDED and LOST may work on after it has lost a lock; only a check of its token, the czxid of its node times 512, rejects its writes. " +
		"Tokens keep increasing as long as the ensemble keeps its data."
)

// Inspect implements driver.Store. A holder of another program is shown with the text of its node
// as owner; its end is the longest timeout of a session. A reader that Java acquired under its own
// write lock is shown with a token below those of the writers that wait.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return s.inner.Inspect(ctx, name)
}

// List implements driver.Store. It walks the tree below Options.Root, because a lock may be
// anywhere in it, and shows the locks of the store's recipe. Below Root, nodes that the user may not
// read are left out. With a NameMapper it is not supported.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	return s.inner.List(ctx, q)
}

// Break implements driver.Store. A holder of another program is not notified: Curator does not
// watch the node of a lock that it holds.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	return s.inner.Break(ctx, name, token)
}

// SetLimit implements driver.Store: it is not supported, because other programs count every child
// of a lock.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	return s.inner.SetLimit(ctx, name, limit)
}

// Check asks every server whether it is fit to keep locks, as zkstore does.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.inner.Check(ctx) }

// Close ends every session that is still open and closes all connections.
func (s *Store) Close() error { return s.inner.Close() }
