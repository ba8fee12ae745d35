// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// slack is added to every bound derived from a TTL: test machines are slow and
// shared.
const slack = 10 * time.Second

// party is a process: a client with its own connections, and what happened to it.
type party struct {
	*fencelock.Client
	t    *testing.T
	name string

	mu     sync.Mutex
	counts map[fencelock.EventKind]int
	errs   map[fencelock.EventKind]error // the last of each
	heard  chan struct{}                 // closed at the next event
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

// notified are the events that a timeline shows.
var notified = map[fencelock.EventKind]bool{
	fencelock.SessionRenewalFailed: true, fencelock.SessionReset: true, fencelock.SessionResumed: true,
	fencelock.SessionLost: true, fencelock.LeaseWaiting: true, fencelock.LeaseGranted: true,
	fencelock.LeaseReleased: true, fencelock.LeaseLost: true,
}

// join makes a party. It is closed when the test ends.
func join(t *testing.T, l *timeline, name string, s driver.Store, opts fencelock.Options) *party {
	t.Helper()
	p := &party{t: t, name: name, counts: map[fencelock.EventKind]int{}, errs: map[fencelock.EventKind]error{}, heard: make(chan struct{})}
	opts.Owner = name
	opts.StoreTimeout = time.Minute // a failover may take longer than a TTL
	opts.Hooks.Event = func(e fencelock.Event) {
		if notified[e.Kind] {
			l.note("%-7s %v %s %v %v", name, e.Kind, e.Name, tokenOf(e), errOf(e.Err))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.counts[e.Kind]++
		p.errs[e.Kind] = e.Err
		close(p.heard)
		p.heard = make(chan struct{})
	}
	var err error
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

// never fails the test if an event has happened.
func (p *party) never(kind fencelock.EventKind) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.counts[kind]; n > 0 {
		p.t.Errorf("%s: %v %d times, at last: %v", p.name, kind, n, p.errs[kind])
	}
}

// lock acquires a lock, and fails the test if that takes more than a minute.
func (p *party) lock(name string) *fencelock.Lease {
	p.t.Helper()
	return p.start(name).wait(p.t, time.Minute)
}

// pending is an acquisition under way.
type pending struct {
	done  chan struct{}
	lease *fencelock.Lease
	err   error
	at    time.Time
}

// start begins to lock.
func (p *party) start(name string) *pending { return p.begin(p.Mutex(name).Lock) }

// begin begins an acquisition.
func (p *party) begin(acquire func(context.Context) (*fencelock.Lease, error)) *pending {
	w := &pending{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	go func() {
		defer close(w.done)
		defer cancel()
		w.lease, w.err = acquire(ctx)
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
	var st fencelock.Status
	redistest.WaitFor(p.t, p.name+" is answered", func() (ok bool) {
		var err error
		st, err = p.Inspect(p.t.Context(), name)
		return err == nil
	})
	return st
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
	must.OK(t, l.Unlock(t.Context()))
}

// everywhere runs a test with every client library on every kind of server, all at
// once, on however few processors: they mostly wait.
func everywhere(t *testing.T, test func(t *testing.T, flavor redistest.Flavor, lib library)) {
	t.Parallel()
	for _, flavor := range redistest.Flavors {
		for _, lib := range libraries {
			t.Run(string(flavor)+"/"+lib.name, func(t *testing.T) {
				t.Parallel()
				flavor.Need(t)
				test(t, flavor, lib)
			})
		}
	}
}

// paired runs a test with every client library, each on another kind of server if
// there is one: for tests that keep the processors busy.
func paired(t *testing.T, test func(t *testing.T, flavor redistest.Flavor, lib library)) {
	t.Parallel()
	for i, lib := range libraries {
		flavor := redistest.Flavors[i]
		if !flavor.Installed() {
			flavor = redistest.Redis
		}
		t.Run(string(flavor)+"/"+lib.name, func(t *testing.T) {
			t.Parallel()
			test(t, flavor, lib)
		})
	}
}
