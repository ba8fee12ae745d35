// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestLayoutOfVotes: names that several servers vote about have a counter of their slot.
func TestLayoutOfVotes(t *testing.T) {
	l := newLayout(t)
	l.open("ann")
	vote := func(seq uint64, floor driver.Token) driver.Token {
		t.Helper()
		out, err := l.on["ann"].Attempt(l.ctx, &driver.Claim{Seq: seq, Name: "x", Floor: floor,
			Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		l.must(err)
		if out.State != driver.Granted {
			t.Fatalf("the vote is %v", out.State)
		}
		l.withdraw("ann", seq, false)
		return out.Token
	}
	first := vote(1, 0)
	l.want("a lock that nobody voted about", "m", "c", "sann")
	if marker := l.plain.HGet(l.ctx, l.bucket, "m").Val(); marker[7] != 0 {
		t.Errorf("byte 8 of the marker is %d before the first vote", marker[7])
	}
	floor := first + 1000*driver.TokenStep
	got := vote(2, floor)
	// Length and last three bytes, as slot.lua has it: (31*1 + 7*'x') % 256.
	l.want("a vote", "m", "c", "sann", "c103")
	if marker := l.plain.HGet(l.ctx, l.bucket, "m").Val(); marker[7] != 1 {
		t.Errorf("byte 8 of the marker is %d after the first vote", marker[7])
	}
	if stored := l.plain.HGet(l.ctx, l.bucket, "c103").Val(); got != floor || stored != fmt.Sprint(int64(floor)/driver.TokenStep) {
		t.Errorf("c103 is %q and the token %v, want the counter of %v", stored, got, floor)
	}
}

// TestLayoutOfSweep: the cursor is there while a sweep is under way.
func TestLayoutOfSweep(t *testing.T) {
	l := newLayout(t)
	l.open("ann")
	const many = 200
	for seq := uint64(1); seq <= many; seq++ {
		_, err := l.on["ann"].Attempt(l.ctx, &driver.Claim{Seq: seq, Name: fmt.Sprint("x", seq),
			Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		l.must(err)
	}
	under, over := false, false
	for range many { // a keep-alive looks at some 16 fields
		_, err := l.on["ann"].KeepAlive(l.ctx)
		l.must(err)
		cursor, err := l.plain.HGet(l.ctx, l.bucket, "g").Result()
		if over = under && err != nil; over {
			break
		}
		if err == nil {
			under = true
			if n, err := strconv.ParseUint(cursor, 10, 64); err != nil || n == 0 {
				t.Errorf("g is %q, want a number above 0", cursor)
			}
		}
	}
	if !under || !over {
		t.Errorf("g was there: %t, and went away: %t", under, over)
	}
}

// TestLayoutOfGrace: in a grace a lock that is waited for has an empty array, and one that
// was reclaimed has the counter, until it is freed after the grace.
func TestLayoutOfGrace(t *testing.T) {
	p, client := newPretence(t, redistest.Start(t).Addr)
	if err := p.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, p, newStore(t, client, true), &memstore.Options{Grace: true})
	const bucket = "fencelock:{fencelock:0}"
	value := func(field string) string { return p.plain.HGet(w.ctx, bucket, field).Val() }
	w.must(w.real.SetLimit(w.ctx, "a", 0)) // sets the namespace up
	w.elapse(maxTTL + 2*tick)              // the grace of a new namespace, which the model has not

	w.open(0, 2*time.Second)
	claim := func(seq uint64, name string) *driver.Claim {
		return &driver.Claim{Seq: seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	}
	held := claim(1, "a")
	w.procs[0].claims, w.procs[0].seq = append(w.procs[0].claims, held), 1
	w.attempt(0, held)
	w.lose("flush", false)
	waiting := w.procs[0].seq + 1
	w.attempt(0, claim(waiting, "b"))
	if got := value("lb"); got != "\x90" {
		t.Errorf("lb is %q while a claim waits in a grace, want an empty array", got)
	}
	w.withdraw(0, driver.Withdrawal{Seq: waiting, Name: "b"})
	if n := p.plain.HExists(w.ctx, bucket, "lb").Val(); n {
		t.Error("lb is there although no claim waits")
	}
	lost := w.procs[0].lost
	if len(lost) != 1 {
		t.Fatalf("%d leases were lost, want 1", len(lost))
	}
	counter := fmt.Sprint(int64(lost[0].real) / driver.TokenStep)
	w.reclaim(0, lost, true)
	if got := value("ra"); got != counter {
		t.Errorf("ra is %q, want the counter of what was reclaimed, %s", got, counter)
	}
	for range 4 {
		w.keepAlive(0)
		w.elapse(30 * tick)
	}
	w.keepAlive(0)
	if got := value("ra"); got != counter {
		t.Errorf("after the grace ra is %q, want %s until the lock is freed", got, counter)
	}
	w.withdraw(0, driver.Withdrawal{Seq: 1, Name: "a"})
	for _, field := range []string{"la", "ra"} {
		if p.plain.HExists(w.ctx, bucket, field).Val() {
			t.Errorf("%s is there although the lock is free", field)
		}
	}
}
