// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// slack is added to every bound derived from a TTL: test machines are slow and
// shared.
const slack = 10 * time.Second

// party is a process of its own: a client with its own connections, and what
// happened to it.
type party struct {
	*fencelock.Client
	t    *testing.T
	name string

	mu     sync.Mutex
	counts map[fencelock.EventKind]int
	heard  chan struct{} // closed at the next event
}

// timeline collects what happened when, and prints it at the end of the test.
type timeline struct {
	mu    sync.Mutex
	since time.Time
	text  strings.Builder
}

func newTimeline(t *testing.T) *timeline {
	l := &timeline{since: time.Now()}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.Log("time line:\n" + l.text.String())
	})
	return l
}

// note adds a line. A nil timeline is for tests with too many of them.
func (l *timeline) note(format string, args ...any) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, "%8.3f s  %s\n", time.Since(l.since).Seconds(), fmt.Sprintf(format, args...))
}

// told are the events worth a line.
var told = map[fencelock.EventKind]bool{
	fencelock.SessionRenewalFailed: true, fencelock.SessionForgotten: true, fencelock.SessionResumed: true,
	fencelock.SessionLost: true, fencelock.LeaseWaiting: true, fencelock.LeaseGranted: true,
	fencelock.LeaseReleased: true, fencelock.LeaseLost: true,
}

// join makes a party. It is closed when the test ends.
func join(t *testing.T, l *timeline, name string, client redis.UniversalClient, store redisstore.Options, opts fencelock.Options) *party {
	t.Helper()
	s, err := redisstore.New(client, &store)
	if err != nil {
		t.Fatal(err)
	}
	p := &party{t: t, name: name, counts: map[fencelock.EventKind]int{}, heard: make(chan struct{})}
	opts.Owner = name
	opts.Patience = time.Minute // a failover may take longer than a TTL
	opts.Hooks.Event = func(e fencelock.Event) {
		if told[e.Kind] {
			l.note("%-7s %v %s %v %v", name, e.Kind, e.Name, tokenOf(e), errOf(e.Err))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.counts[e.Kind]++
		close(p.heard)
		p.heard = make(chan struct{})
	}
	if p.Client, err = fencelock.New(s, &opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) }) // the servers may be gone
	return p
}

func tokenOf(e fencelock.Event) string {
	if e.Token == 0 {
		return ""
	}
	return "token " + e.Token.String()
}

func errOf(err error) string {
	if err == nil {
		return ""
	}
	return "(" + err.Error() + ")"
}

// await waits until an event has happened n times.
func (p *party) await(kind fencelock.EventKind, n int) {
	p.t.Helper()
	late := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		count, heard := p.counts[kind], p.heard
		p.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-heard:
		case <-late:
			p.t.Fatalf("%s: %v happened %d times, not %d", p.name, kind, count, n)
		}
	}
}

func (p *party) count(kind fencelock.EventKind) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[kind]
}

// lock locks, and fails the test if that takes for ever.
func (p *party) lock(name string) *fencelock.Lease {
	p.t.Helper()
	return p.start(name).wait(p.t, time.Minute)
}

// pending is an acquisition that somebody waits for.
type pending struct {
	done  chan struct{}
	lease *fencelock.Lease
	err   error
	at    time.Time
}

// start begins to lock.
func (p *party) start(name string) *pending {
	w := &pending{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	go func() {
		defer close(w.done)
		defer cancel()
		w.lease, w.err = p.Mutex(name).Lock(ctx)
		w.at = time.Now()
	}()
	return w
}

func (w *pending) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *pending) wait(t *testing.T, within time.Duration) *fencelock.Lease {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(within):
		t.Fatalf("not granted within %v", within)
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.lease
}

// status asks until the store answers: a failover may be under way.
func (p *party) status(name string) fencelock.Status {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		st, err := p.Inspect(p.t.Context(), name)
		if err == nil {
			return st
		}
		if time.Now().After(end) {
			p.t.Fatal(err)
		}
	}
}

// wantHeld checks that the lease is held, here and in the store.
func wantHeld(t *testing.T, by *party, l *fencelock.Lease) {
	t.Helper()
	if err := context.Cause(l.Context()); err != nil || !l.Valid() {
		t.Fatalf("%q is lost: %v, %v", l.Name(), err, l.Err())
	}
	if st := by.status(l.Name()); len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
		t.Fatalf("%q is held with token %v, the store says %+v", l.Name(), l.Token(), st.Holders)
	}
}

func unlock(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// loss is a way to lose memory under a holder that must not notice.
type loss struct {
	client func() redis.UniversalClient // with connections of its own
	ttl    time.Duration
	// prepare is called before the lease that the memory will not have; lose
	// returns when the new memory is there.
	prepare func(l *timeline) (lose func())
}

// survives checks that with grace a holder keeps what the store forgot, nobody
// else gets anything inside the grace, and tokens rise.
func (c loss) survives(t *testing.T) {
	l := newTimeline(t)
	opts := redisstore.Options{Namespace: "grace", Grace: true, MaxTTL: c.ttl, Buckets: 1}
	need := fencelock.Options{TTL: c.ttl, Require: fencelock.Correctness}
	holder, other := join(t, l, "holder", c.client(), opts, need), join(t, l, "other", c.client(), opts, need)
	remembered := holder.lock("remembered") // a new namespace has a grace of its own
	lose := c.prepare(l)
	forgotten := holder.lock("forgotten")
	released := other.lock("free")
	unlock(t, released)
	waiter := other.start("forgotten")
	other.await(fencelock.LeaseWaiting, 1)
	l.note("the store loses its memory")
	lose()
	l.note("the store is back")
	holder.await(fencelock.SessionResumed, 1)
	newcomer := join(t, l, "new", c.client(), opts, need)
	var busy *fencelock.BusyError
	if _, err := newcomer.Mutex("free").TryLock(t.Context()); !errors.As(err, &busy) || !busy.Grace {
		t.Errorf("inside the grace TryLock of a free lock says: %v", err)
	}
	free := newcomer.start("free")
	for newcomer.status("free").Grace > 0 {
		for _, lease := range []*fencelock.Lease{remembered, forgotten} {
			wantHeld(t, newcomer, lease)
		}
		time.Sleep(c.ttl / 20)
	}
	l.note("the grace is over")
	if waiter.over() {
		t.Fatalf("somebody else got the lock while it was held: %v", waiter.err)
	}
	if next := free.wait(t, c.ttl+slack); next.Token() <= released.Token() {
		t.Errorf("token %v after %v", next.Token(), released.Token())
	}
	wantHeld(t, newcomer, remembered)
	wantHeld(t, newcomer, forgotten)
	unlock(t, forgotten)
	if next := waiter.wait(t, c.ttl*11/10+slack); next.Token() <= forgotten.Token() {
		t.Errorf("token %v after %v", next.Token(), forgotten.Token())
	}
	unlock(t, remembered)
	if n := holder.count(fencelock.LeaseLost); n > 0 {
		t.Errorf("the holder was told of %d losses", n)
	}
}

// A master dies while its replicas lag: they never saw the grant.
func TestFailoverKeepsTheLease(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	loss{
		client: func() redis.UniversalClient { return set.Client() },
		ttl:    8 * time.Second, // a failover takes three, on a good day
		prepare: func(l *timeline) func() {
			set.PauseReplication()
			l.note("the replicas lag from now on")
			return func() {
				old := set.KillMaster()
				l.note("the master was killed")
				set.WaitPromoted(old)
				l.note("a replica was promoted")
			}
		},
	}.survives(t)
}

// Without grace nobody promises exclusion in time, and the tokens still rise.
func TestFailoverWithoutGrace(t *testing.T) {
	t.Parallel()
	l, set := newTimeline(t), redistest.StartSentinels(t)
	opts, ttl := redisstore.Options{}, 6*time.Second
	holder := join(t, l, "holder", set.Client(), opts, fencelock.Options{TTL: ttl})
	other := join(t, l, "other", set.Client(), opts, fencelock.Options{TTL: ttl})
	unlock(t, holder.lock("x"))
	wantHonest(t, holder.Guarantees(), set.Client(), opts)

	set.PauseReplication()
	held := holder.lock("x")
	waiter := other.start("x")
	other.await(fencelock.LeaseWaiting, 1)
	old := set.KillMaster()
	l.note("the master was killed")
	set.WaitPromoted(old)
	l.note("a replica was promoted")
	next := waiter.wait(t, 2*ttl+slack)
	if next.Token() <= held.Token() {
		t.Errorf("token %v after %v", next.Token(), held.Token())
	}
	holder.await(fencelock.LeaseLost, 1)
	if err := held.Err(); !errors.Is(err, fencelock.ErrLost) {
		t.Errorf("the forgotten lease says %v", err)
	}

	// Whoever waits when a replica takes over that knows everything is served too.
	again := holder.start("x")
	holder.await(fencelock.LeaseWaiting, 1)
	set.Failover()
	l.note("another replica was promoted, on request")
	other.await(fencelock.SessionResumed, 2)
	wantHeld(t, other, next)
	unlock(t, next)
	if last := again.wait(t, ttl*11/10+slack); last.Token() <= next.Token() {
		t.Errorf("token %v after %v", last.Token(), next.Token())
	}
}

// wantHonest checks that a store without grace says what it does not promise.
func wantHonest(t *testing.T, g fencelock.Guarantees, client redis.UniversalClient, opts redisstore.Options) {
	t.Helper()
	if g.SurvivesCrash || g.Grace || !strings.Contains(g.String(), "only the token tells them apart") {
		t.Errorf("the guarantees claim too much: %s", g)
	}
	s, err := redisstore.New(client, &opts)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fencelock.New(s, &fencelock.Options{Require: fencelock.Correctness})
	if err == nil || !strings.Contains(err.Error(), "Grace: true") {
		t.Errorf("Require: Correctness says %v", err)
	}
}
