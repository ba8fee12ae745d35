// SPDX-License-Identifier: Apache-2.0

// Package lock is what a client process uses: ours on some deployment, or another
// one behind the same few methods, so that all go through the same workload,
// faults and checkers.
package lock

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/fencelock/fencelock/store/sqlstore"
)

// Locks makes acquisitions.
type Locks interface {
	// Lock waits for the lock as long as ctx allows.
	Lock(ctx context.Context, name string) (Held, error)
	// Close gives back what is held.
	Close(ctx context.Context) error
}

// Held is one acquisition.
type Held interface {
	// Token is the fencing token, 0 if the lock has none.
	Token() int64
	// Context ends when the lock is lost, and after Unlock.
	Context() context.Context
	// Deadline is until when the holder trusts it, as things stand; after its end
	// it is in the past.
	Deadline() time.Time
	Unlock(ctx context.Context) error
}

// Giver is a lock whose holder can give way, and be made to.
type Giver interface {
	Locks
	// TryLock takes the lock if no client uses it.
	TryLock(ctx context.Context, name string) (Held, error)
	// Break takes the lock away from its holder, if it has one.
	Break(ctx context.Context, name string) error
}

// Contended is a Held that reports that another client waits.
type Contended interface{ Contended() <-chan struct{} }

// Spec says which lock on which servers. It travels to the client processes.
type Spec struct {
	// Kind is a key of Kinds.
	Kind string `json:"kind"`
	// Addrs are the servers as they know themselves; Via is where this client
	// reaches an address.
	Addrs []string          `json:"addrs"`
	Via   map[string]string `json:"via"`
	// Who names the client.
	Who string        `json:"who"`
	TTL time.Duration `json:"ttl"`
	// MaxTTL is the longest TTL that the store allows.
	MaxTTL time.Duration `json:"max_ttl"`
	// Linger, if not 0, is how long locks linger, where the store lets them.
	Linger time.Duration `json:"linger,omitempty"`
}

// via returns where an address is reached.
func (s Spec) via(addr string) string {
	if to, ok := s.Via[addr]; ok {
		return to
	}
	return addr
}

// Reach are the servers as this client reaches them.
func (s Spec) Reach() (addrs []string) {
	for _, a := range s.Addrs {
		addrs = append(addrs, s.via(a))
	}
	return addrs
}

// dial connects to an address that a server reported.
func (s Spec) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.DialContext(ctx, network, s.via(addr))
}

// Maker makes locks.
type Maker func(Spec) (Locks, error)

// Kinds are the locks that there are.
var Kinds = map[string]Maker{
	"redis":          func(s Spec) (Locks, error) { return openRedis(s, false) },
	"redis-grace":    func(s Spec) (Locks, error) { return openRedis(s, true) },
	"quorum":         openQuorum,
	"sentinel":       func(s Spec) (Locks, error) { return openSentinel(s, false) },
	"sentinel-grace": func(s Spec) (Locks, error) { return openSentinel(s, true) },
	"cluster":        func(s Spec) (Locks, error) { return openCluster(s, false) },
	"cluster-grace":  func(s Spec) (Locks, error) { return openCluster(s, true) },
	"etcd":           openEtcd,
	"zookeeper":      openZooKeeper,
	"postgres":       func(s Spec) (Locks, error) { return openPostgres(s, &sqlstore.Options{Grace: true}) },
	"pgbouncer":      func(s Spec) (Locks, error) { return openPostgres(s, &sqlstore.Options{Grace: true, Pooler: true}) },
	"postgres-pair":  func(s Spec) (Locks, error) { return openPostgres(s, &sqlstore.Options{}) },
	"mariadb":        func(s Spec) (Locks, error) { return openMySQL(s, "tx_isolation") },
	"mysql":          func(s Spec) (Locks, error) { return openMySQL(s, "transaction_isolation") },
	"memcached":      openMemcached,
}

// Open makes the locks that a spec asks for.
func Open(s Spec) (Locks, error) {
	if make := Kinds[s.Kind]; make != nil {
		return make(s)
	}
	return nil, fmt.Errorf("there is no lock called %q", s.Kind)
}
