// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"slices"
	"testing"
	"time"
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
		{1, 15 * time.Second, true, 45 * time.Second, 45 * time.Second, false},
		{1, 10 * time.Second, true, 30 * time.Second, 30 * time.Second, false},
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
