// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestLayoutOfVotes: names that several servers vote about have a counter of their slot.
func TestLayoutOfVotes(t *testing.T) {
	t.Parallel()
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
	l.want("a lock that was not voted about", "m", "v", ":s", "sann")
	if marker := l.field("m"); marker[7] != 0 {
		t.Errorf("byte 8 of the marker is %d before the first vote", marker[7])
	}
	floor := first + 1000*driver.TokenStep
	got := vote(2, floor)
	// Length and last three bytes, as slot.lua has it: (31*1 + 7*'x') % 256.
	if got := l.state(); !slices.Equal(got, []string{":s", "c103", "m", "sann", "v"}) {
		t.Errorf("after a vote the fields and keys are %q; there must be no tickets", got)
	}
	if marker := l.field("m"); marker[7] != 1 {
		t.Errorf("byte 8 of the marker is %d after the first vote", marker[7])
	}
	if stored := l.field("c103"); got != floor || stored != fmt.Sprint(int64(floor)/driver.TokenStep) {
		t.Errorf("c103 is %q and the token %v, want the counter of %v", stored, got, floor)
	}
}

// TestLayoutOfSweep: the lease of the sweeper is there while a sweep is under way.
func TestLayoutOfSweep(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	l.open("ann")
	l.open("bob")
	const many = 2000 // a sweep takes several calls, with pauses between them
	for seq := uint64(1); seq <= many; seq++ {
		l.attemptOf("ann", seq, fmt.Sprint("x", seq), driver.Terms{}, driver.Granted)
	}
	l.dies("ann")
	var lease string
	redistest.WaitFor(t, "the process that lives sweeps", func() bool {
		_, err := l.on["bob"].KeepAlive(l.ctx)
		l.must(err)
		lease, err = l.plain.HGet(l.ctx, l.bucket, "g").Result()
		return err == nil
	})
	if len(lease) != 22 || l.named(lease[:16]) != "bob" || number([]byte(lease[16:])) < time.Now().UnixMilli() {
		t.Errorf("g is %q, want the session id and the end of the lease", lease)
	}
	redistest.WaitFor(t, "the sweep ends", func() bool {
		_, err := l.on["bob"].KeepAlive(l.ctx)
		l.must(err)
		return slices.Equal(l.state(), []string{":s", ":t", "m", "sbob", "v"})
	})
}

// TestLayoutOfGrace: in a grace period there are no tickets, and a lock that was reclaimed has
// the counter, until it is released after the grace period.
func TestLayoutOfGrace(t *testing.T) {
	t.Parallel()
	for _, proven := range []bool{false, true} {
		t.Run(fmt.Sprintf("proven %t", proven), func(t *testing.T) { layoutOfGrace(t, proven) })
	}
}

func layoutOfGrace(t *testing.T, proven bool) {
	p, client := newPretense(t, redistest.Start(t).Addr)
	p.proven = proven
	must.OK(t, p.write(t.Context()))
	w := newWorld(t, p, newStore(t, p, client, true), &memstore.Options{Grace: true})
	l := layout{t: t, ctx: w.ctx, plain: p.plain, bucket: bucketOf(p.namespace)}
	value := func(field string) string { return p.plain.HGet(w.ctx, l.bucket, field).Val() }
	length := func(key string) int64 { return p.plain.LLen(w.ctx, key).Val() }
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
	if n, ready := length(l.list("b")), length(l.tickets()); n != 2 || ready != 0 {
		t.Errorf("while a claim waits in a grace period its list has %d elements, and there are %d tickets", n, ready)
	}
	w.withdraw(0, driver.Withdrawal{Seq: waiting, Name: "b"})
	if n := length(l.list("b")); n != 0 {
		t.Error("there is a list although no claim waits")
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
	if n := length(l.list("a")); n != 0 || value("ra") != "" {
		t.Errorf("the lock is free, its list has %d elements, and ra is %q", n, value("ra"))
	}
}
