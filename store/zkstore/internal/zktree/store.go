// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// Defaults of Options.
const (
	DefaultRoot     = "/fencelock"
	DefaultTickTime = 2 * time.Second
)

// Options of a Store, as the packages zkstore and curatorstore document them.
type Options struct {
	// Package begins every error.
	Package string
	// Layout is where locks are, and what the nodes of their claims are called. Default: Own.
	Layout Layout
	// Root is the node below which sessions are kept, and locks with the layout Own.
	Root           string
	TickTime       time.Duration
	MinTTL, MaxTTL time.Duration
	Auth           string
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
}

// Store is a store on a ZooKeeper ensemble. Make one with New or Open. It is safe for
// concurrent use.
type Store struct {
	servers []string
	opts    Options
	layout  Layout
	paths   paths
	acl     []zk.ACL

	mu       sync.Mutex
	closed   bool
	done     chan struct{} // closed with it
	sessions map[string]*session
	// sessionless is the connection of the calls that belong to no session. It is made
	// when it is first needed.
	sessionless *sessionless
}

var _ driver.Store = (*Store)(nil)

var goodRoot = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)

// New returns a store on the servers, each as host:port. It does no I/O. It takes addresses
// and not a client, because a session of the store is a session of ZooKeeper: the store
// connects once for each of its sessions.
func New(servers []string, opts Options) (*Store, error) {
	s := &Store{servers: servers, opts: opts, done: make(chan struct{}), sessions: map[string]*session{}}
	o := &s.opts
	o.Package = cmp.Or(o.Package, "zkstore")
	o.Root = cmp.Or(o.Root, DefaultRoot)
	o.TickTime = cmp.Or(o.TickTime, DefaultTickTime)
	o.MinTTL = cmp.Or(o.MinTTL, o.TickTime*3/2)
	o.MaxTTL = cmp.Or(o.MaxTTL, 15*o.TickTime)
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	switch {
	case len(servers) == 0:
		return nil, s.errorf("New needs the servers of the ensemble, as host:port")
	case !GoodRoot(o.Root):
		return nil, s.errorf("Options.Namespace is %q; write a path such as fencelock, without a slash at its ends, of letters, digits, dots, hyphens and underscores", o.Root[1:])
	case o.TickTime < time.Millisecond:
		return nil, s.errorf("Options.TickTime is %v; it must be the tickTime of the servers, whose default is 2s", o.TickTime)
	case o.MinTTL <= 0 || o.MaxTTL < o.MinTTL:
		return nil, s.errorf("Options.MinTTL is %v and MaxTTL %v; they must be positive and in order", o.MinTTL, o.MaxTTL)
	case o.Auth != "" && !strings.Contains(o.Auth, ":"):
		return nil, s.errorf("Options.Auth must be user:password")
	}
	for _, server := range servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return nil, s.errorf("a server must be host:port: %w", err)
		}
	}
	s.paths, s.acl = paths{o.Root}, zk.WorldACL(zk.PermAll)
	s.layout = o.Layout
	if s.layout == nil {
		s.layout = nativeLayout{s.paths}
	}
	if o.Auth != "" {
		s.acl = zk.AuthACL(zk.PermAll)
	}
	return s, nil
}

// GoodRoot reports whether a path can be a root: it does not need escaping anywhere.
func GoodRoot(path string) bool { return goodRoot.MatchString(path) && path != "/zookeeper" }

// errorf returns an error of the store's package.
func (s *Store) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{s.opts.Package}, args...)...)
}

// lag is how much longer than the TTL the timeout is that a session asks for: the
// leader may count from the heartbeat before the last, see pulse, which the core sends
// less than a third of the TTL earlier. Where that is hardly a tick, the last heartbeat
// may prove nothing of the one before it, and it takes a tick more.
func (s *Store) lag(ttl time.Duration) time.Duration {
	if ttl < 5*s.opts.TickTime {
		return ttl/3 + s.opts.TickTime
	}
	return ttl / 3
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := s.layout.caps()
	c.Engine, c.Durability = "zookeeper", driver.Durable
	c.Queue, c.Push, c.Contended, c.Linger = true, true, driver.NoticeAtOnce, true
	c.MinTTL, c.MaxTTL = s.opts.MinTTL, s.opts.MaxTTL
	return c
}

// Shard implements driver.Store: an ensemble is one shard.
func (s *Store) Shard(string) string { return "0" }

// Open implements driver.Store. Every session has its own connection.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if c := s.Caps(); req.TTL < c.MinTTL || req.TTL > c.MaxTTL {
		return nil, driver.Renewal{}, s.errorf("TTL %v is not within %v and %v, the bounds in Options: %w", req.TTL, c.MinTTL, c.MaxTTL, driver.ErrRefused)
	}
	if err := ctx.Err(); err != nil {
		return nil, driver.Renewal{}, s.errorf("open: %w", err)
	}
	ss, err := s.session(req.ID.String(), req.TTL)
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	ss.notices.Report(req.Contended)
	renewal, err := run(ss.again(ctx, "open"), ss.begin)
	if err != nil {
		if errors.Is(err, driver.ErrGone) { // while it was being opened: once more is worth it
			err = s.errorf("open: %w: the session ended at once", driver.ErrUnavailable)
		}
		return nil, driver.Renewal{}, err
	}
	return ss, renewal, nil
}

// session returns a session, and connects it if it is new.
func (s *Store) session(id string, ttl time.Duration) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, s.errorf("open: the store is closed: %w", driver.ErrUnavailable)
	}
	if ss := s.sessions[id]; ss != nil {
		return ss, nil
	}
	ss, err := s.dial(id, ttl)
	if err == nil {
		s.sessions[id] = ss
	}
	return ss, err
}

// drop drops a session that has ended.
func (s *Store) drop(ss *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[ss.id] == ss {
		delete(s.sessions, ss.id)
	}
}

// Close ends every session that is still open and closes all connections.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	var links []*session
	for _, ss := range s.sessions {
		links = append(links, ss)
	}
	a := s.sessionless
	s.sessionless = nil
	s.mu.Unlock()
	for _, ss := range links {
		ss.end()
	}
	if a != nil {
		a.conn.Close()
	}
	return nil
}

// sessionless is a connection for calls that belong to no session.
type sessionless struct {
	conn    *zk.Conn
	sniffer *sniffer
	begun   sync.Once
	has     chan struct{}
	mu      sync.Mutex
	known   bool // it knows who we are
}

// sessionlessCall returns a call that belongs to no session, once there is a connection.
func (s *Store) sessionlessCall(ctx context.Context, op string) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.errorf("%s: %w", op, err)
	}
	a, err := s.connectSessionless()
	if err != nil {
		return nil, s.errorf("%s: %w: %w", op, driver.ErrUnavailable, err)
	}
	select {
	case <-a.has:
	case <-ctx.Done():
		return nil, s.errorf("%s: %w: %w", op, driver.ErrUnavailable, a.sniffer.why(ctx.Err()))
	}
	c := &call{ctx: ctx, pkg: s.opts.Package, conn: a.conn, done: s.done, op: op}
	if s.opts.Auth != "" {
		_, err = run(c, func(c *call) (struct{}, error) { return struct{}{}, a.authenticate(c, s.opts.Auth) })
	}
	return c, err
}

// authenticate logs in, once; the library repeats it when it connects again.
func (a *sessionless) authenticate(c *call, auth string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known {
		return nil
	}
	if err := a.conn.AddAuth("digest", []byte(auth)); err != nil {
		return c.failed(err)
	}
	a.known = true
	return nil
}

func (s *Store) connectSessionless() (*sessionless, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("the store is closed")
	case s.sessionless != nil:
		return s.sessionless, nil
	}
	timeout := 10 * s.opts.TickTime
	a := &sessionless{has: make(chan struct{}), sniffer: newSniffer(true, timeout)}
	event := func(ev zk.Event) {
		if ev.Type == zk.EventSession && ev.State == zk.StateHasSession {
			a.begun.Do(func() { close(a.has) })
		}
	}
	conn, events, err := s.connect(a.sniffer, timeout, event)
	if err != nil {
		return nil, err
	}
	go func() {
		for range events {
		}
	}()
	a.conn, s.sessionless = conn, a
	return a, nil
}

// unsupported is the answer to what it cannot do by its Caps, because ZooKeeper does not report
// its time.
func unsupported[T any](ctx context.Context, s *Store, what string) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, s.errorf("%w", err)
	}
	return zero, s.errorf("%s: %w on ZooKeeper, which does not report its time", what, driver.ErrUnsupported)
}
