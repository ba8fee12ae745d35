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
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

const (
	// watchdog is the lease of a Java holder that renews, and ttl that of a Go holder: what
	// a killed holder costs the other side. A loaded machine must not end a lease.
	watchdog = 15 * time.Second
	ttl      = 15 * time.Second
	// long is a lease that no test waits for: what comes earlier came by a message.
	long = 10 * time.Minute
)

// format is a server with the locks of another library. A scene passes itself, because the lock is its.
type format interface {
	traits(kind string) traits
	// apart is the same on a separate server, which can be restarted.
	apart(t *testing.T) format
	// start starts a process of the other library that is driven by lines, or skips the test.
	start(t testing.TB) *process
	// other returns a thread or process of the other library. Only a mortal one can be killed or paused, and its lease ends.
	other(s *scene, kind string, mortal bool) contender
	// foreign is how the other library names a lock.
	foreign(name string) string
	// store returns a store of a Go process, and url is how a separate process opens one.
	store(s *scene) driver.Store
	url(kind string) string

	// count is how many claims there are, the holder's included.
	count(s *scene) int
	// settled reports whether one claim more waits than when it was called; by is nil for a claim of Go.
	settled(s *scene, by contender) func() bool
	// fence is the token that the other library would have as a holder, or 0 if it has none.
	fence(s *scene) driver.Token
	// deleteFirst takes the lock from its holder behind the back of fencelock.
	deleteFirst(s *scene)
	// barred checks that the other cannot take the lock, and returns how it takes it when Go has unlocked.
	barred(s *scene, c contender) (takes func())
	// gaveUp lets the other wait for the lock, and give up.
	gaveUp(s *scene, c contender)
	// held checks that the other has the lock; lost that it has not, without notice.
	held(s *scene, c contender)
	lost(s *scene, c contender)
	// free checks that nothing of the lock is left.
	free(s *scene)
	// restart restarts the server with its data.
	restart(s *scene)
}

// traits are what differs between formats and is not a deed.
type traits struct {
	// ttl is the TTL of a Go process that is to be lost, and long of one that is not: what comes within soon
	// came by a message or a watch.
	ttl, long, soon time.Duration
	patience        time.Duration // of a Go process with its store
	queues          bool          // the lock goes to the one that has waited longest
	waitsEnd        bool          // a wait of the other may end with the server
}

// contender is a thread or process of another library that competes for the lock of a scene.
type contender interface {
	// lock takes the lock; the answer comes when it has it.
	lock() <-chan answer
	unlock() error
	giveUp()
	Kill()
	Pause() (resume func())
}

// actor is a contender that is driven by lines.
type actor struct {
	*peer
	who, kind, path string
	lease           int64 // in milliseconds; -1 renews
}

func (a *actor) lock() <-chan answer { return a.Ask(a.who, "LOCK", a.kind, a.path, a.lease) }
func (a *actor) unlock() error       { return a.Do(a.who, "UNLOCK", a.kind, a.path).Err() }
func (a *actor) giveUp()             { a.Must(a.who, "INTERRUPT", a.kind, a.path) }

// waits reports whether a Java thread has begun to wait for a message or a watch. On Redis it has found the lock held after its
// subscription.
func (a *actor) waits() bool { return a.Do(a.who, "WAITS", a.kind, a.path).Word == "ok" }

// holds checks that it has the lock.
func (a *actor) holds() { a.t.Helper(); a.Must(a.who, "HELD", a.kind, a.path) }

// tries is an attempt that does not wait.
func (a *actor) tries() answer { return a.Do(a.who, "TRY", a.kind, a.path, 0, a.lease) }

// stage is what the scenes of one version share: to start a Java process takes seconds.
type stage struct {
	format
	version string // the column of the page
	shared  *process
}

// newStage starts the process here and not in the first scene that needs it: a test that is skipped in a sync.OnceValue panics,
// and so would one without Java.
func newStage(t *testing.T, version string, f format) *stage {
	return &stage{f, version, f.start(t)}
}

// scene is a server with processes of Go and of another library, most of which are in Java, that share a lock.
type scene struct {
	*testing.T
	*stage
	traits
	kind    string // of lock, for the other library
	name    string // of the lock, in Go
	actors  *atomic.Int64
	refused *refusals // of the Go processes, on Redis
}

var names atomic.Int64

// play runs a scene with a lock that no other scene has.
func (s *stage) play(t *testing.T, kind string, do func(*scene)) {
	do(&scene{T: t, stage: s, traits: s.traits(kind), kind: kind, name: fmt.Sprint("orders/", names.Add(1)), actors: &atomic.Int64{}, refused: &refusals{}})
}

// apart returns the scene on a separate server, which can be restarted.
func (s *scene) apart() *scene {
	s.Helper()
	apart := *s
	apart.stage = newStage(s.T, s.version, s.format.apart(s.T))
	return &apart
}

// at returns the scene with another lock.
func (s *scene) at(name string) *scene {
	other := *s
	other.name = name
	return &other
}

// path is the name of the lock for the other library.
func (s *scene) path() string { return s.foreign(s.name) }

// java returns the process that the scenes share.
func (s *scene) java() *peer { return &peer{s.shared, s.name + "/"} }

// process starts a process that can be killed or paused.
func (s *scene) process() *peer { s.Helper(); return &peer{s.start(s), ""} }

// other returns a thread or process of the other library, and mortal one that can be killed or paused.
func (s *scene) other() contender  { s.Helper(); return s.format.other(s, s.kind, false) }
func (s *scene) mortal() contender { s.Helper(); return s.format.other(s, s.kind, true) }

// reads and writes return threads that take a side of a read-write lock.
func (s *scene) reads() contender  { s.Helper(); return s.format.other(s, "read", false) }
func (s *scene) writes() contender { s.Helper(); return s.format.other(s, "write", false) }

// by returns a new actor of the process that the scenes share, or of one of its own that can be killed.
func (s *scene) by(kind string, mortal bool) *actor {
	s.Helper()
	a := &actor{s.java(), fmt.Sprint("actor", s.actors.Add(1)), kind, s.path(), long.Milliseconds()}
	if mortal {
		a.peer, a.lease = s.process(), -1
	}
	return a
}

// client returns a Go process.
func (s *scene) client(ttl time.Duration) *fencelock.Client {
	s.Helper()
	return s.clientOf(s.store(s), ttl)
}

func (s *scene) clientOf(store driver.Store, ttl time.Duration) *fencelock.Client {
	s.Helper()
	locks, err := fencelock.New(store, &fencelock.Options{TTL: ttl, StoreTimeout: s.patience})
	must.OK(s, err)
	s.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

// mortalGo starts a Go process that can be killed or paused.
func (s *scene) mortalGo(ttl time.Duration) *peer {
	s.Helper()
	return startGo(s, s.url(s.kind), ttl)
}

// lock and rlock take the lock in Go.
func (s *scene) lock(locks *fencelock.Client) *fencelock.Lease {
	s.Helper()
	return granted(s, taking(s, locks.Mutex(s.name).Lock)).lease
}

func (s *scene) rlock(locks *fencelock.Client) *fencelock.Lease {
	s.Helper()
	return granted(s, taking(s, locks.RWMutex(s.name).RLock)).lease
}

// result is what a Lock in Go came to.
type result struct {
	lease *fencelock.Lease
	err   error
	at    time.Time
}

// locking and rlocking take the lock in Go, in the background, and return when it waits.
func (s *scene) locking(locks *fencelock.Client) <-chan result {
	s.Helper()
	return s.waitIn(locks.Mutex(s.name).Lock)
}

func (s *scene) rlocking(locks *fencelock.Client) <-chan result {
	s.Helper()
	return s.waitIn(locks.RWMutex(s.name).RLock)
}

func (s *scene) waitIn(take func(context.Context) (*fencelock.Lease, error)) <-chan result {
	s.Helper()
	waits := s.settled(s, nil)
	c := taking(s, take)
	must.OK(s, servers.Await("a Go process waits", waits))
	return c
}

// asking lets the other take the lock in the background, and returns when it waits.
func (s *scene) asking(c contender) <-chan answer {
	s.Helper()
	waits := s.settled(s, c)
	got := c.lock()
	must.OK(s, servers.Await("the other waits", waits))
	return got
}

// asked lets a Go process wait that can be killed or paused.
func (s *scene) asked(g *peer) <-chan answer {
	s.Helper()
	n := s.count(s)
	c := g.Ask("a", "LOCK", "lock", s.name)
	s.queued(n + 1)
	return c
}

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

// takes lets the other take the lock, and has waits until it has it.
func (s *scene) takes(c contender) { s.Helper(); s.has(c.lock()) }

func (s *scene) has(c <-chan answer) {
	s.Helper()
	must.OK(s, await(s, "the lock of the other", c).Err())
}

// leaves waits until Go has the lock, and gives it back.
func (s *scene) leaves(c <-chan result) { s.Helper(); s.unlock(granted(s, c).lease) }

// woken is leaves for a lease that came by a message or a watch.
func (s *scene) woken(c <-chan result, since time.Time) {
	s.Helper()
	r := granted(s, c)
	if took := r.at.Sub(since); took > s.soon {
		s.Errorf("woken after %v, as if by a poll", took)
	}
	s.unlock(r.lease)
}

// busy and rbusy check that Go cannot take the lock.
func (s *scene) busy(locks *fencelock.Client) {
	s.Helper()
	if _, err := locks.Mutex(s.name).TryLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
		s.Fatalf("TryLock beside another holder: %v", err)
	}
}

func (s *scene) rbusy(locks *fencelock.Client) {
	s.Helper()
	if _, err := locks.RWMutex(s.name).TryRLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
		s.Fatalf("TryRLock beside a writer: %v", err)
	}
}

// unlock gives the lock back in Go.
func (s *scene) unlock(l *fencelock.Lease) { s.Helper(); must.OK(s, l.Unlock(s.Context())) }

// queued waits until there are n claims: the holder's, and those of waiters.
func (s *scene) queued(n int) {
	s.Helper()
	must.OK(s, servers.Await(fmt.Sprint(n, " claims"), func() bool { return s.count(s) == n }))
}

// noticed waits until a Go holder has noticed that it lost the lock.
func (s *scene) noticed(l *fencelock.Lease, want error) {
	s.Helper()
	await(s, "the notice of the Go holder", l.Context().Done())
	if err := context.Cause(l.Context()); !errors.Is(err, want) {
		s.Errorf("the lease ended with %v", err)
	}
}

// queueGrows is settled for a format with a queue.
func queueGrows(s *scene) func() bool {
	n := s.count(s)
	return func() bool { return s.count(s) == n+1 }
}
