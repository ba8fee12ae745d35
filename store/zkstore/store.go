// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"context"
	"net"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/zkstore/internal/zktree"
)

// Options of a Store. The zero value is good for most; nil is the same. Bad values
// make New fail.
type Options struct {
	// Namespace is the node below which everything is kept: one or more names of letters,
	// digits, dots, hyphens and underscores, with slashes between them. All processes that share
	// locks must use the same. Default "fencelock".
	Namespace string
	// TickTime is the tickTime of the servers. A heartbeat proves that the ensemble
	// knows of another one only if that was answered a tick before. Default
	// 2 s, ZooKeeper's own default; too high a value is safe.
	TickTime time.Duration
	// MinTTL and MaxTTL bound the TTLs that can be requested. Set them if the servers
	// set minSessionTimeout or maxSessionTimeout, MaxTTL to three quarters of the
	// latter. The defaults are 1.5 and 15 ticks, since servers otherwise allow
	// timeouts of up to 20 ticks.
	MinTTL, MaxTTL time.Duration
	// Auth is "user:password" for the scheme digest. Everything is then created so
	// that only this user can use it. Default: every client can.
	Auth string
	// Dial connects to a server, for TLS or a proxy. The address is a server as New has it,
	// with its name. Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// tree returns the options of the package that does the work.
func (o *Options) tree() zktree.Options {
	t := zktree.Options{Package: "zkstore"}
	if o != nil {
		t.TickTime, t.MinTTL, t.MaxTTL, t.Auth, t.Dial = o.TickTime, o.MinTTL, o.MaxTTL, o.Auth, o.Dial
		if o.Namespace != "" {
			t.Root = "/" + o.Namespace
		}
	}
	return t
}

// Store is a store on a ZooKeeper ensemble. Make one with New or Open. It is safe for
// concurrent use. Every session has its own connection.
type Store struct{ *inner }

type inner = zktree.Store

var _ driver.Store = (*Store)(nil)

// New returns a store on the servers, each as host:port. A nil opts is fine. It does
// no I/O. It takes addresses and not a client, because a session of the store is a session
// of ZooKeeper: the store connects once for each of its sessions.
func New(servers []string, opts *Options) (*Store, error) {
	s, err := zktree.New(servers, opts.tree())
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// Inspect implements driver.Store. The age of a holder counts from when it was
// queued, by the clocks of the leader and of this process; its end is the latest it can
// be.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return s.inner.Inspect(ctx, name)
}

// Break implements driver.Store. Breaking two readers in front of the same writer gives the
// same fence twice.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	return s.inner.Break(ctx, name, token)
}

// Check asks every server that the store knows whether it is fit to keep locks, and returns
// what is not, with what to change; an empty list is a good answer. It sends the four-letter
// words srvr and conf and writes nothing. What 4lw.commands.whitelist hides is a finding,
// too. The error reports that no server answered at all. The codes are member, separate-servers,
// serving, session-timeout, standalone, tick-time, unchecked, unreachable and version; findings
// without a Node are about the ensemble.
//
// Whether a server writes to disk before it answers (forceSync) cannot be read.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.inner.Check(ctx) }

// Close ends every session that is still open and closes all connections.
func (s *Store) Close() error { return s.inner.Close() }
