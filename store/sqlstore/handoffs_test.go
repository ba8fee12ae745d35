// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// TestOverlappingAttemptsKeepOneHandoffLock: two attempts of a claim overlap, and each takes a handoff lock out. The
// claim keeps the first, and the other serves other claims.
func TestOverlappingAttemptsKeepOneHandoffLock(t *testing.T) {
	for _, gone := range []bool{false, true} {
		b := &handoffLocks{taken: map[claimID]*handoffLock{}}
		c := claimID{"s", 1}
		first, second := &handoffLock{b: b, id: 7}, &handoffLock{b: b, id: 8, gone: gone}
		for _, bl := range []*handoffLock{first, second} {
			if id := b.give(c, bl); id != 7 {
				t.Errorf("an attempt got the handoff lock %d, want 7", id)
			}
		}
		if idle := len(b.idle) == 1 && b.idle[0] == second; b.taken[c] != first || idle == gone {
			t.Errorf("the second handoff lock is gone: %t; idle are %v, and the claim has %v", gone, b.idle, b.taken[c])
		}
	}
	b := &handoffLocks{taken: map[claimID]*handoffLock{}}
	if id := b.give(claimID{"s", 1}, &handoffLock{b: b, id: 7, gone: true}); id != 0 || len(b.taken) != 0 {
		t.Errorf("a handoff lock that is gone was given: %d, %v", id, b.taken)
	}
}

// TestFarClaimRestsOnce: of the attempts of a claim that is far back and waits for a handoff lock each second one is
// answered as the last, while the lock does not change hands.
func TestFarClaimRestsOnce(t *testing.T) {
	ss := &session{}
	for _, tt := range []struct {
		what    string
		place   int
		counter int64
		waits   bool
		want    bool
	}{
		{"far back", reuseFrom, 5, true, true},
		{"near the front", reuseFrom - 1, 5, true, false},
		{"the lock changed hands", reuseFrom, 6, true, false},
		{"its wait is over", reuseFrom, 5, false, false},
	} {
		w := &waiting{progress: progress{counter: 5}, handoff: handoff{wait: &job{done: make(chan struct{})}}}
		if !tt.waits {
			close(w.wait.done)
		}
		if _, ok := ss.lastAnswer(w); ok {
			t.Errorf("%s: it rests before it was read", tt.what)
		}
		ss.noteAttempt(w, driver.Outcome{State: driver.Queued, Position: tt.place}, tt.counter)
		out, ok := ss.lastAnswer(w)
		if ok != tt.want || ok && out.Position != tt.place {
			t.Errorf("%s: it rests: %t, at place %d", tt.what, ok, out.Position)
		}
		if _, ok := ss.lastAnswer(w); ok {
			t.Errorf("%s: it rests twice", tt.what)
		}
	}
	w := &waiting{progress: progress{counter: 5}}
	ss.noteAttempt(w, driver.Outcome{State: driver.Queued, Position: reuseFrom}, 5)
	if _, ok := ss.lastAnswer(w); ok {
		t.Error("a claim that polls rests")
	}
}

// TestNextHandoffLock: a claim waits for the nearest handoff lock before it that a process has, beyond those that it
// skips.
func TestNextHandoffLock(t *testing.T) {
	for _, tt := range []struct {
		what   string
		before []int64
		dead   []int64
		skip   int
		want   int64
	}{
		{"the nearest", []int64{6, 5}, nil, 0, 6},
		{"the claim before it has no handoff lock", []int64{0, 5}, nil, 0, 5},
		{"no process has the handoff lock before it any more", []int64{6, 5}, []int64{6}, 0, 5},
		{"nor the other", []int64{6, 5}, []int64{6, 5}, 0, 0},
		{"one is skipped", []int64{7, 6, 5}, nil, 1, 6},
		{"all are", []int64{6, 5}, nil, 2, 0},
		{"no handoff lock before it", nil, nil, 0, 0},
	} {
		if got := nextHandoffLock(slices.Values(tt.before), tt.dead, tt.skip); got != tt.want {
			t.Errorf("%s: handoff lock %d, want %d", tt.what, got, tt.want)
		}
	}
}

// TestSkipMore: a claim whose chain of waits is too long comes to the front in a few steps, and polls then.
func TestSkipMore(t *testing.T) {
	for before := range 500 {
		skipped, steps := 0, 0
		for poll := false; !poll; steps++ {
			was := skipped
			if skipped, poll = skipMore(was, before); !poll && (skipped <= was || skipped >= before) {
				t.Fatalf("%d of %d are skipped after %d", skipped, before, was)
			}
		}
		if skipped != 0 || steps > 10 {
			t.Errorf("%d before it: %d are skipped after %d steps", before, skipped, steps)
		}
	}
}

// TestHandoffLockWait: a fault of a handoff lock delays the first in the queue by a second, and no claim by more
// than three TTLs. Waits that keep the table open are short, no wait is longer than a proxy allows, and
// the server gets whole seconds, never zero.
func TestHandoffLockWait(t *testing.T) {
	for _, tt := range []struct {
		place          int
		ttl            time.Duration
		longer         bool
		bound, rounded time.Duration
		read           bool
	}{
		{0, 15 * time.Second, false, time.Second, time.Second, true},
		{0, 15 * time.Second, true, time.Second, time.Second, true},
		{3, 15 * time.Second, false, time.Second, time.Second, true},
		{1, 15 * time.Second, true, 4 * time.Second, 4 * time.Second, false},
		{3, 15 * time.Second, true, 16 * time.Second, 16 * time.Second, false},
		{60, 15 * time.Second, true, 45 * time.Second, 45 * time.Second, false},
		{1 << 40, time.Hour, true, 45 * time.Second, 45 * time.Second, false},
		{0, minTTL, true, minTTL / 2, time.Second, true},
		{9, minTTL, true, 3 * minTTL, serverBound(3 * minTTL), false},
	} {
		if got, read := handoffWait(tt.place, tt.ttl, tt.longer); got != tt.bound || serverBound(got) != tt.rounded || read != tt.read {
			t.Errorf("place %d with a TTL of %v, longer %t: %v, %v, %t; want %v, %v, %t",
				tt.place, tt.ttl, tt.longer, got, serverBound(got), read, tt.bound, tt.rounded, tt.read)
		}
	}
	if serverBound(minTTL/2) < time.Second {
		t.Error("the server is to wait for nothing")
	}
}

// TestHandoffLockHasOneWait: a claim that waits again while its connection still waits is refused, so
// there is always room to free its handoff lock.
func TestHandoffLockHasOneWait(t *testing.T) {
	b := &handoffLocks{taken: map[claimID]*handoffLock{}}
	c := claimID{"s", 1}
	bl := &handoffLock{b: b, jobs: make(chan job, 2)}
	b.taken[c] = bl
	b.wait(c, job{other: 7})
	if second := b.wait(c, job{other: 7}); len(bl.jobs) != 1 || second.end.state != waitRefused {
		t.Fatalf("%d waits, and the second is in state %v", len(bl.jobs), second.end.state)
	}
	b.free(c)
	if b.wait(c, job{other: 7}) != nil || len(bl.jobs) != 2 {
		t.Errorf("a claim waits without a handoff lock; %d jobs", len(bl.jobs))
	}
}

// TestHandoffLockThatWaitsIsNotIdleSoon: the handoff lock of a claim that gives up while its connection waits may be
// idle only after that wait. No other claim waits for it.
func TestHandoffLockThatWaitsIsNotIdleSoon(t *testing.T) {
	for _, waits := range []bool{false, true} {
		b := &handoffLocks{taken: map[claimID]*handoffLock{}}
		c := claimID{"s", 1}
		bl := &handoffLock{b: b, jobs: make(chan job, 2)}
		b.taken[c] = bl
		if waits {
			b.wait(c, job{other: 7, read: true})
			<-bl.jobs
		}
		b.free(c)
		if j := <-bl.jobs; j.other != 0 || j.soon == waits || (b.freed == 0) != waits {
			t.Errorf("the handoff lock waits: %t; it is idle soon: %t, and %d are", waits, j.soon, b.freed)
		}
	}
}

// TestClaimThatLostItsHandoffLockTakesOne: a claim whose handoff lock is gone is attempted again, and gets another one by that. Its next
// wait keeps it: one that is replaced would neither be freed nor serve another claim.
func TestClaimThatLostItsHandoffLockTakesOne(t *testing.T) {
	c := claimID{"s", 1}
	b := &handoffLocks{taken: map[claimID]*handoffLock{}, lost: map[claimID]bool{c: true}}
	b.idle = []*handoffLock{{b: b, id: 9, jobs: make(chan job, 2)}}
	b.give(c, &handoffLock{b: b, id: 7, jobs: make(chan job, 2)})
	b.wait(c, job{other: 5})
	if b.taken[c].id != 7 || len(b.idle) != 1 || len(b.lost) > 0 {
		t.Errorf("the claim has the handoff lock %d, %d are idle, %d claims have lost theirs", b.taken[c].id, len(b.idle), len(b.lost))
	}
}
