// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

const (
	// watchdog is the lease of a Java holder that renews, and ttl that of a Go holder: what
	// a killed holder costs the other side. A loaded machine must not end a lease.
	watchdog = 15 * time.Second
	ttl      = 15 * time.Second
	// long is a lease that no test waits for: what comes earlier came by a message. A client of
	// read-write locks has the longest TTL of these instead, and may poll at its end.
	long = 10 * time.Minute
)

// scene is a server with Go and Java processes that share locks.
type scene struct {
	*testing.T
	version string
	kind    string // of lock, in Java
	name    string
	server  *servers.RedisServer
	shared  *process
}

var names atomic.Int64

// play runs a scene with a lock that no other scene has.
func (s *stage) play(t *testing.T, kind string, do func(*scene)) {
	do(&scene{T: t, version: s.version, kind: kind, server: s.server, shared: s.java, name: fmt.Sprint("orders/", names.Add(1))})
}

// stage is what the scenes of one version share: to start a Java process takes seconds.
type stage struct {
	version string
	server  *servers.RedisServer
	java    *process
}

// newStage starts the process here and not in the first scene that needs it: a test that is skipped in a sync.OnceValue panics,
// and so would one without Java.
func newStage(t *testing.T, version string) *stage {
	server := redisServer(t)
	return &stage{version, server, start(t, peerOptions{Version: version, Servers: []string{server.Addr}, Watchdog: watchdog})}
}

// java returns the Java process that the scenes share.
func (s *scene) java() *peer { return &peer{s.shared, s.name + "/"} }

// mortal starts a Java process that can be killed or paused.
func (s *scene) mortal() *peer {
	s.Helper()
	return &peer{start(s, peerOptions{Version: s.version, Servers: []string{s.server.Addr}, Watchdog: watchdog}), ""}
}

// store returns a store of a Go process.
func (s *scene) store() *redissonstore.Store {
	s.Helper()
	return storeAt(s, redis.NewClient(&redis.Options{Addr: s.server.Addr}), s.kind)
}

func storeAt(t testing.TB, client redis.UniversalClient, kind string) *redissonstore.Store {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	store, err := redissonstore.New(client, &redissonstore.Options{ReadWrite: kind == "readwrite"})
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// client returns a Go process.
func (s *scene) client(ttl time.Duration) *fencelock.Client {
	s.Helper()
	return s.clientOf(s.store(), ttl)
}

func (s *scene) clientOf(store *redissonstore.Store, ttl time.Duration) *fencelock.Client {
	s.Helper()
	locks, err := fencelock.New(store, &fencelock.Options{TTL: min(ttl, store.Caps().MaxTTL)})
	must.OK(s, err)
	s.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

// lock takes the lock in Go.
func (s *scene) lock(locks *fencelock.Client) *fencelock.Lease {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	l, err := locks.Mutex(s.name).Lock(ctx)
	must.OK(s, err)
	return l
}

// result is what a Lock in Go came to.
type result struct {
	lease *fencelock.Lease
	err   error
	at    time.Time
}

// locking takes the lock in Go, in the background.
func (s *scene) locking(locks *fencelock.Client) <-chan result {
	return taking(s, locks.Mutex(s.name).Lock)
}

// granted waits for a lease.
func (s *scene) granted(c <-chan result) result { s.Helper(); return granted(s, c) }

// taking calls Lock or RLock in the background.
func taking(t testing.TB, take func(context.Context) (*fencelock.Lease, error)) <-chan result {
	c := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := take(ctx)
		c <- result{l, err, time.Now()}
	}()
	return c
}

// granted waits for a lease that is being taken.
func granted(t testing.TB, c <-chan result) result {
	t.Helper()
	r := await(t, "Lock in Go", c)
	must.OK(t, r.err)
	return r
}

// busy checks that Go cannot take the lock.
func (s *scene) busy(locks *fencelock.Client) {
	s.Helper()
	if _, err := locks.Mutex(s.name).TryLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
		s.Fatalf("TryLock beside a Java holder: %v", err)
	}
}

// unlock gives the lock back in Go.
func (s *scene) unlock(l *fencelock.Lease) {
	s.Helper()
	must.OK(s, l.Unlock(s.Context()))
}

// mortalGo starts a Go process that can be killed or paused.
func (s *scene) mortalGo(ttl time.Duration) *peer {
	s.Helper()
	return startGo(s, fmt.Sprintf("redisson://%s?read_write=%v", s.server.Addr, s.kind == "readwrite"), ttl)
}

// listened waits until n processes listen for the lock to become free.
func (s *scene) listened(n int) {
	s.Helper()
	channel := "redisson_lock__channel:{" + s.name + "}"
	if s.kind == "readwrite" {
		channel = "redisson_rwlock:{" + s.name + "}"
	}
	must.OK(s, servers.Await(fmt.Sprint(n, " processes listen"), func() bool {
		got, err := s.server.Do("PUBSUB", "NUMSUB", channel).Slice()
		return err == nil && len(got) == 2 && fmt.Sprint(got[1]) == fmt.Sprint(n)
	}))
}

// fields returns the hash of the lock.
func (s *scene) fields() []string {
	s.Helper()
	all, err := s.server.Do("HGETALL", s.name).StringSlice()
	must.OK(s, err)
	return all
}

// free checks that nothing of the lock is left.
func (s *scene) free() {
	s.Helper()
	if all := s.fields(); len(all) > 0 {
		s.Fatalf("the lock is not free: %v", all)
	}
}
