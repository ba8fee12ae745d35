// SPDX-License-Identifier: Apache-2.0

package lockfeed

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func all(string) bool { return true }

// held is a lock with one holder whose session is that of the owner.
func held(name, owner string, age, ends time.Duration) fencelock.Status {
	h := fencelock.Holder{Record: fencelock.Record{Owner: owner}, Age: age, EndsIn: ends, Token: fencelock.Token(len(owner)) * driver.TokenStep}
	copy(h.Claim.Session[:], owner)
	return fencelock.Status{Name: name, Holders: []fencelock.Holder{h}}
}

// TestSnapshotMarksHoldersThatDoNotRenew: the end of a lease that only comes nearer.
func TestSnapshotMarksHoldersThatDoNotRenew(t *testing.T) {
	var r lockview.Renewals
	for i, tt := range []struct {
		ends time.Duration
		want int
	}{{15 * time.Second, 0}, {9 * time.Second, 0}, {7 * time.Second, 1}, {14 * time.Second, 0}} {
		s := newSnapshot(uint64(i), time.Now(), []fencelock.Status{held("a", "ann", time.Minute, tt.ends)}, &r)
		if _, counts := s.Page(&Query{Sees: all, Order: lockview.Contended}); counts.Troubled != tt.want {
			t.Errorf("poll %d: got %d, want %d", i, counts.Troubled, tt.want)
		}
	}
}

// TestPageShowsWhatTheViewerSees: neither a page nor its counts have locks that a viewer
// has no right to see.
func TestPageShowsWhatTheViewerSees(t *testing.T) {
	var r lockview.Renewals
	s := newSnapshot(1, time.Now(), []fencelock.Status{held("a", "x", 0, 1), held("b", "x", 0, 1), held("c", "x", 0, 1)}, &r)
	page, counts := s.Page(&Query{Sees: func(n string) bool { return n == "b" }, Order: lockview.ByName, Limit: 10})
	if len(page) != 1 || page[0].Name != "b" || counts.Total != 1 || len(s.Visible(func(string) bool { return false })) != 0 {
		t.Errorf("got %v, %+v", page, counts)
	}
}

// TestReservedLockIsNotCountedAsHeld: the record of a run --once-per is a lock without a holder.
func TestReservedLockIsNotCountedAsHeld(t *testing.T) {
	var r lockview.Renewals
	reserved := held("nightly@2026-11-16T00:00:00Z", "ann", time.Minute, time.Hour)
	reserved.Holders[0].Kept = true
	s := newSnapshot(1, time.Now(), []fencelock.Status{held("a", "ann", 0, 1), reserved}, &r)
	_, listed := s.Page(&Query{Sees: all, Order: lockview.ByName, Limit: 10})
	for _, counts := range []Counts{listed, s.Counts()} {
		if counts.Total != 2 || counts.Held != 1 {
			t.Errorf("got %+v, want 1 held of 2", counts)
		}
	}
}

func TestFeed(t *testing.T) {
	var f Feed
	events, missed, more := f.After(0)
	if len(events) != 0 || missed {
		t.Errorf("empty: %v %v", events, missed)
	}
	f.add(Event{Lock: "a"}, Event{Lock: "b"})
	<-more
	if events, missed, _ = f.After(1); missed || len(events) != 1 || events[0].Lock != "b" || events[0].Seq != 2 {
		t.Errorf("after 1: %v %v", events, missed)
	}
	if _, missed, _ = f.After(3); !missed {
		t.Error("a number of another process is not noticed")
	}
	for i := range 3 * feedLength {
		f.add(Event{Lock: fmt.Sprint(i)})
		if events, missed, _ := f.After(max(f.Last(), feedLength) - feedLength); missed || len(events) != int(min(f.Last(), feedLength)) {
			t.Fatalf("%d: %d events, missed %v", i, len(events), missed)
		}
	}
	if _, missed, _ = f.After(1); !missed {
		t.Error("events that are gone are not missed")
	}
}

func TestHistory(t *testing.T) {
	var h History
	var r lockview.Renewals
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := func(lock, owner string, held time.Duration) lockview.Event {
		return lockview.Event{Kind: lockview.EventEnded, Lock: lock, Owner: owner, ForMS: held.Milliseconds()}
	}
	h.note([]lockview.Event{ended("a", "ann", time.Minute), ended("b", "bob", 1), {Kind: lockview.EventLeft, Lock: "a"}}, at, at)
	s := newSnapshot(1, at.Add(time.Second), []fencelock.Status{held("a", "eve", 500*time.Millisecond, 1)}, &r)
	spans := h.Of("a", s)
	if len(spans) != 2 || spans[0].Owner != "ann" || !spans[0].From.Equal(at.Add(-time.Minute)) || !spans[1].Held || spans[1].Owner != "eve" {
		t.Errorf("got %+v", spans)
	}
	h.note(nil, at.Add(historyFor), at.Add(historyFor+time.Second))
	if len(h.spans) != 0 {
		t.Errorf("%d spans are older than an hour", len(h.spans))
	}
	for range historySize + 10 {
		h.note([]lockview.Event{ended("a", "ann", 1)}, at, at)
	}
	if len(h.spans) != historySize {
		t.Errorf("%d spans", len(h.spans))
	}
	if spans := h.Of("a", s); len(spans) != maxSpans || !spans[maxSpans-1].Held {
		t.Errorf("%d spans are returned, the last is %+v", len(spans), spans[len(spans)-1])
	}
}

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		took  time.Duration
		idle  bool
		pause time.Duration
	}{{0, false, time.Second}, {time.Millisecond, true, 10 * time.Second}, {2 * time.Second, false, 8 * time.Second}, {5 * time.Second, true, 20 * time.Second}} {
		if got := pause(tt.took, time.Second, tt.idle); got != tt.pause {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// TestPollerSlowsDownWithoutViewers: it polls every second for a viewer, ten times less
// without one, and at once for a viewer that comes.
func TestPollerSlowsDownWithoutViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := fencelock.New(memstore.New(nil), nil)
		must.OK(t, err)
		p := &Poller{Client: c, Logger: slog.New(slog.DiscardHandler), Every: time.Second, Lists: true}
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		revision := func() uint64 { synctest.Wait(); return p.Now().Snapshot.Revision }
		within := func(d time.Duration) uint64 {
			before := revision()
			time.Sleep(d)
			return revision() - before
		}
		if n := within(100 * time.Second); n < 9 || n > 11 {
			t.Errorf("%d polls in 100 s without viewers", n)
		}
		done := p.Watch()
		if n := within(100 * time.Second); n < 99 || n > 101 {
			t.Errorf("%d polls in 100 s with a viewer", n)
		}
		done()
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		time.Sleep(5 * time.Second)
		began := time.Now()
		if state := p.Current(t.Context()); time.Since(state.Ended) > time.Second || time.Since(began) > time.Second {
			t.Errorf("a viewer that comes gets a snapshot from %v ago, after %v", time.Since(state.Ended), time.Since(began))
		}
		cancel()
		synctest.Wait()
	})
}
