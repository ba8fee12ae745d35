// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestManyIsOneScript: a claim for a free lock and its release run batch.lua once each, and
// leave nothing behind.
func TestManyIsOneScript(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name()+batched)
	sent := &scripts{}
	l.plain.AddHook(sent)
	l.open("ann", time.Minute)
	sent.take()
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.release("ann", 1, "x")
	if got := sent.take(); len(got) != 2 || got[0] != got[1] {
		t.Errorf("a lock and its release send %q, want the script of both twice", got)
	}
	if keys := l.keys(); !slices.Equal(keys, []string{"", ":s", ":t"}) {
		t.Errorf("the keys of an unused namespace are %q", keys)
	}
}

// TestBatchIsAScript: operations that are sent together are one script.
func TestBatchIsAScript(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 8} {
		p, store := pretended(t)
		p.proven = true
		w := newWorld(t, p, store, nil)
		w.open(0, time.Second)
		var ops []*operation
		for i := range n {
			ops = append(ops, w.claimFor(0, fmt.Sprint("name ", i)))
		}
		if w.together(0, ops, n); p.batchCalls == 0 {
			t.Errorf("%d operations: no script", n)
		}
	}
}

// TestManyGivesTicketsBack: tickets for locks that are not free are the next to be given.
func TestManyGivesTicketsBack(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name()+batched)
	l.open("ann", time.Minute)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	before, err := l.plain.LRange(t.Context(), l.base+":t", 0, -1).Result()
	must.OK(t, err)
	l.attempt("ann", 2, "x", driver.Terms{}, driver.Queued) // with a ticket that attempt.lua takes
	after, err := l.plain.LRange(t.Context(), l.base+":t", 0, -1).Result()
	if err != nil || !slices.Equal(after[:len(before)-1], before[1:]) {
		t.Errorf("the tickets are %v after %v, %v", after[:3], before[:3], err)
	}
}

// TestBatchWithAForeignKey: a key of another type in the place of a lock stops no other operation
// of its batch.
func TestBatchWithAForeignKey(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	p.proven = true
	w := newWorld(t, p, newStoreIn(t, client, p.namespace+batched, false), nil)
	w.must(p.write(w.ctx))
	w.open(0, time.Second)
	held := w.claimFor(0, "b")
	w.attempt(0, held.claim)
	w.must(p.plain.Set(w.ctx, bucketOf(p.namespace+batched)+":l:a", "not a list", 0).Err())
	first, last := w.claimFor(0, "a"), w.claimFor(0, "c")
	ops := []*operation{first, held.release(), last}
	w.send(w.procs[0], ops)
	if ops[1].err != nil || last.err != nil || last.outcome.State != driver.Granted || first.err == nil {
		t.Errorf("beside a key of another type: %v, %v, %v; the claim for that key: %v", ops[1].err, last.outcome.State, last.err, first.err)
	}
}

// losing loses the replies to batch.lua while it is armed.
type losing struct {
	recorder
	armed atomic.Bool
}

// ProcessHook implements redis.Hook.
func (r *losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if operationsIn(cmd) > 0 && r.armed.Load() {
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return err
	}
}

// TestLostReplyOfABatch: a claim of which the reply was lost has an unknown outcome. It is
// found by the next attempt, and a withdrawal leaves a tombstone: the call may still be on its
// way.
func TestLostReplyOfABatch(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name()+batched)
	lost := &losing{}
	l.plain.AddHook(lost)
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	lose := func(seq uint64, name string) *driver.Claim {
		t.Helper()
		lost.armed.Store(true)
		defer lost.armed.Store(false)
		c := &driver.Claim{Seq: seq, Name: name, Terms: terms, Queue: true}
		if out, err := l.on["ann"].Attempt(t.Context(), c); !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("an attempt without a reply is %v, %v", out.State, err)
		}
		if n := l.plain.LLen(t.Context(), l.base+":l:"+name).Val(); n != 2 {
			t.Fatalf("the list has %d elements: the call did not get through, so this showed nothing", n)
		}
		return c
	}
	again := lose(1, "x")
	out, err := l.on["ann"].Attempt(t.Context(), again)
	if err != nil || out.State != driver.Granted {
		t.Errorf("the next attempt is %v, %v", out.State, err)
	}
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
	lose(2, "y")
	if _, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 2, Name: "y"}); err != nil {
		t.Fatal(err)
	}
	if out, err := l.on["ann"].Attempt(t.Context(), &driver.Claim{Seq: 2, Name: "y", Terms: terms, Queue: true}); err != nil || out.State != driver.Absent {
		t.Errorf("the claim that was withdrawn is %v, %v", out.State, err)
	}
	l.attempt("bob", 2, "y", driver.Terms{}, driver.Granted)
}

// TestTicketsRise: tickets rise by one.
func TestTicketsRise(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	last, err := l.plain.HGet(t.Context(), l.base, "v").Int64()
	must.OK(t, err)
	last += 1_000_000 - last%1_000_000 - 100
	must.OK(t, l.plain.HSet(t.Context(), l.base, "v", last).Err())
	must.OK(t, l.plain.Del(t.Context(), l.base+":t").Err())
	l.attempt("ann", 2, "y", driver.Terms{}, driver.Granted) // makes tickets, and takes the first
	all, err := l.plain.LRange(t.Context(), l.base+":t", 0, -1).Result()
	if err != nil || len(all) < 1000 {
		t.Fatal(len(all), err)
	}
	for i, ticket := range all {
		if want := strconv.FormatInt(last+int64(i)+2, 10); ticket != want {
			t.Fatalf("ticket %d is %s, want %s", i, ticket, want)
		}
	}
}
