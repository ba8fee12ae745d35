// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/fencelock/fencelock/driver"
)

// The bounds of a session's TTL. memcached counts in seconds.
const (
	MinTTL = time.Second
	MaxTTL = 24 * time.Hour
)

// Defaults of Options.
const (
	DefaultNamespace = "fencelock"
	DefaultTimeout   = 3 * time.Second
	DefaultIdle      = 32
)

// Options of a Store. The zero value is good for most; nil is the same. Bad values
// make New fail.
type Options struct {
	// Namespace begins every key: 1 to 64 printable characters of ASCII. All
	// processes that share locks must use the same. Default DefaultNamespace.
	Namespace string
	// Timeout bounds one round trip to the server, if the call's context does not
	// end earlier. Default DefaultTimeout.
	Timeout time.Duration
	// Idle is how many connections are kept open while they are not in use. Default
	// DefaultIdle.
	Idle int
	// Dial connects to the server, for TLS or a proxy. Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Store is a store on one memcached server, for efficiency only: it gives no
// fencing tokens, and what the server loses or evicts is free to the next. Make
// one with New or Open.
type Store struct {
	addr   string
	opts   Options
	keys   keys
	client *memcache.Client
}

var _ driver.Store = (*Store)(nil)

// New returns a store on the server at addr, as host:port. A nil opts is fine. It
// does no I/O. It takes an address and not a client, because a client may have several
// servers, and the store needs one: for several use package shard, which writes
// down how to add one; a list that a client library spreads keys over moves names
// between servers, under live locks, when it changes.
func New(addr string, opts *Options) (*Store, error) {
	s := &Store{addr: addr}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("memcachestore: the address must be one host:port: %w", err)
	}
	plain := func(r rune) bool { return r > ' ' && r < 0x7f }
	if len(o.Namespace) > 64 || strings.ContainsFunc(o.Namespace, func(r rune) bool { return !plain(r) }) {
		return nil, errors.New("memcachestore: Options.Namespace must be at most 64 printable characters of ASCII without spaces")
	}
	if o.Timeout < 0 || o.Idle < 0 {
		return nil, errors.New("memcachestore: Options.Timeout and Options.Idle must not be negative")
	}
	s.keys = keys{o.Namespace}
	s.client = memcache.NewFromSelector(&one{addr: addr})
	s.client.Timeout, s.client.MaxIdleConns, s.client.DialContext = o.Timeout, o.Idle, o.Dial
	return s, nil
}

// one is a selector for one server by its name. The library's own resolves the
// name once, when it is made, and would stay with an address that has moved.
type one struct{ addr string }

// PickServer implements memcache.ServerSelector.
func (o *one) PickServer(string) (net.Addr, error) { return o, nil }

// Each implements memcache.ServerSelector.
func (o *one) Each(f func(net.Addr) error) error { return f(o) }

// Network implements net.Addr.
func (o *one) Network() string { return "tcp" }

// String implements net.Addr.
func (o *one) String() string { return o.addr }

// Close closes the connections. Sessions that are open end by themselves.
func (s *Store) Close() error { return s.client.Close() }

// advice is what Require: Correctness is refused with.
const advice = "memcached is for efficiency only: it has no fencing tokens and may lose or evict a lock; use Redis with grace=true (Options{Grace: true} of redisstore), etcd, ZooKeeper or a database"

// Caps implements driver.Store. There are no tokens, no queue, no pushes, no shared
// claims, no holds and no listing.
func (s *Store) Caps() driver.Caps {
	return driver.Caps{
		Engine: "memcached", Fencing: driver.NoFencing, Durability: driver.Volatile,
		MinTTL: MinTTL, MaxTTL: MaxTTL, Advice: advice,
	}
}

// Shard implements driver.Store. There is one.
func (s *Store) Shard(string) string { return "0" }

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if req.TTL < MinTTL || req.TTL > MaxTTL {
		return nil, driver.Renewal{}, fmt.Errorf("memcachestore: TTL %v is not within %v and %v: %w", req.TTL, MinTTL, MaxTTL, driver.ErrRefused)
	}
	ses := &session{store: s, id: req.ID.String(), ttl: req.TTL}
	generation, err := run(ctx, s, "open", ses.open)
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	ses.generation = generation
	return ses, driver.Renewal{TTL: req.TTL}, nil
}

// Inspect implements driver.Store. Age is by the clocks of the holder and of this
// process, EndsIn is the most it can be: memcached returns neither.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return run(ctx, s, "inspect", func(c *call) (driver.Status, error) {
		st := driver.Status{Name: name}
		key := s.keys.lock(name)
		items, err := c.read(key)
		if err != nil {
			return st, err
		}
		lock, err := parse[lockItem](items[key])
		if err != nil {
			return st, err
		}
		h, err := s.holder(c, lock)
		if h != nil {
			st.Holders = []driver.Holder{*h}
		}
		return st, err
	})
}

// holder returns the holder of the lock, or nil if it is free.
func (s *Store) holder(c *call, lock item[lockItem]) (*driver.Holder, error) {
	if lock.raw == nil || lock.v.free() {
		return nil, nil
	}
	key := s.keys.session(lock.v.Session)
	items, err := c.read(key)
	if err != nil {
		return nil, err
	}
	live, err := parse[sessionItem](items[key])
	if err != nil || live.raw == nil || live.v.Generation != lock.v.Generation {
		return nil, err
	}
	h := lock.v.holder(&live.v, time.Now())
	return &h, nil
}

// unsupported is the answer to what it cannot do by its Caps.
func unsupported[T any](ctx context.Context, op string) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("memcachestore: %s: %w", op, err)
	}
	return zero, fmt.Errorf("memcachestore: %s: %w on memcached", op, driver.ErrUnsupported)
}

// List implements driver.Store: it is not supported.
func (s *Store) List(ctx context.Context, _ driver.ListQuery) (driver.Page, error) {
	return unsupported[driver.Page](ctx, "list")
}

// Break implements driver.Store: it is not supported, because there are no tokens.
func (s *Store) Break(ctx context.Context, _ string, _ driver.Token) (driver.Token, error) {
	return unsupported[driver.Token](ctx, "break")
}

// SetLimit implements driver.Store: it is not supported.
func (s *Store) SetLimit(ctx context.Context, _ string, _ int64) error {
	_, err := unsupported[struct{}](ctx, "set limit")
	return err
}
