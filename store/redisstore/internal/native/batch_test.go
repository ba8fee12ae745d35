// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/redis/go-redis/v9"
)

// gate keeps transactions until it is opened.
type gate struct {
	arrived chan struct{}
	opened  chan struct{}
}

// shut makes a gate.
func (p *pretense) shut() *gate {
	g := &gate{arrived: make(chan struct{}, 16), opened: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate, p.most = g, 0
	return g
}

// pass makes batches wait at the gate, if there is one, and notes how many operations pass it
// in one: each claim is pushed, and of each release the length is read.
func (p *pretense) pass(cmds []redis.Cmder) {
	operations, scripts := 0, 0
	for _, cmd := range cmds {
		if name := cmd.Name(); name == "rpush" || name == "llen" {
			operations++
		} else if n := operationsIn(cmd); n > 0 {
			operations, scripts = n, 1
		}
	}
	if operations == 0 {
		return
	}
	p.mu.Lock()
	p.batchCalls += scripts
	g := p.gate
	p.most = max(p.most, operations)
	p.mu.Unlock()
	if g != nil {
		g.arrived <- struct{}{}
		<-g.opened
	}
}

// operationsIn returns how many operations a call of batch.lua has, and 0 for other commands. Its
// keys are the bucket, the tickets, a list for each operation, and two more; other scripts have the hash of a lock behind its list.
func operationsIn(cmd redis.Cmder) int {
	args := cmd.Args()
	if cmd.Name() != "evalsha" || len(args) < 5 {
		return 0
	}
	n, _ := args[2].(int)
	if n < 5 || !strings.Contains(fmt.Sprint(args[5]), ":l:") || strings.Contains(fmt.Sprint(args[6]), ":g:") {
		return 0
	}
	return n - 4
}

func (p *pretense) carried() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = nil
	return p.most
}

// operation is one of a batch: an attempt if there is a claim.
type operation struct {
	what  string
	claim *driver.Claim
	gone  driver.Withdrawal

	model, real *driver.Claim // with the floors of either side
	outcome     driver.Outcome
	removed     driver.Removed
	err         error
	done        chan struct{}
}

func (o *operation) do(ctx context.Context, s driver.Session) {
	defer close(o.done)
	if o.claim != nil {
		o.outcome, o.err = s.Attempt(ctx, o.real)
	} else {
		o.removed, o.err = s.Withdraw(ctx, o.gone)
	}
}

// queued is a context that reports when its end is first waited for: an operation does so
// when it is queued for the next batch.
type queued struct {
	context.Context
	once sync.Once
	yes  chan struct{}
}

// Done implements context.Context.
func (q *queued) Done() <-chan struct{} {
	q.once.Do(func() { close(q.yes) })
	return q.Context.Done()
}

// send does operations of one process at once, and returns the size of the largest batch.
// Two transactions in flight, for locks that no other step uses, delay the operations until
// all of them are queued.
func (w *world) send(p *proc, ops []*operation) int {
	gate := w.p.shut()
	var plugs sync.WaitGroup
	for i := range 2 {
		p.seq++
		plug := &driver.Claim{Seq: p.seq, Name: fmt.Sprint("plug ", i), Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		plugs.Go(func() {
			_, _ = p.real.Attempt(w.ctx, plug)
			_, _ = p.real.Withdraw(w.ctx, driver.Withdrawal{Seq: plug.Seq, Name: plug.Name})
		})
		<-gate.arrived
	}
	for _, o := range ops {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		if o.done = make(chan struct{}); o.claim != nil {
			o.model, o.real = w.floors(o.claim)
		}
		q := &queued{Context: ctx, yes: make(chan struct{})}
		go o.do(q, p.real)
		<-q.yes
	}
	close(gate.opened)
	plugs.Wait()
	for _, o := range ops {
		<-o.done
	}
	return w.p.carried()
}

// together does operations of one process at once, at least some of them in one transaction,
// and then on the model in the order in which the server does them.
func (w *world) together(i int, ops []*operation, some int) {
	w.t.Helper()
	p := w.procs[i]
	if n := w.send(p, ops); n < some {
		w.differ("%d operations at once: at most %d left together", len(ops), n)
	}
	w.step("p%d at once:", i)
	for _, o := range ops {
		if o.claim == nil {
			m, err := p.model.Withdraw(w.ctx, o.gone)
			w.withdrawn(p, o.gone, o.what, m, err, o.removed, o.err)
		}
	}
	for _, o := range ops {
		if o.claim != nil {
			m, err := p.model.Attempt(w.ctx, o.model)
			w.attempted(p, o.claim, o.what, m, err, o.outcome, o.err)
		}
	}
}

// claimFor is a claim of a process that takes the fast path.
func (w *world) claimFor(i int, name string) *operation {
	w.procs[i].seq++
	c := &driver.Claim{Seq: w.procs[i].seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	return &operation{claim: c, what: fmt.Sprintf("attempt p%d:%d %q", i, c.Seq, name)}
}

// release is a withdrawal of a claim.
func (o *operation) release() *operation {
	gone := driver.Withdrawal{Seq: o.claim.Seq, Name: o.claim.Name}
	return &operation{gone: gone, what: fmt.Sprintf("withdraw %d %q", gone.Seq, gone.Name)}
}

// batches runs a test of batches.
func batches(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	p, store := pretended(t)
	p.proven = true
	test(t, newWorld(t, p, store, nil))
	if p.batchCalls == 0 {
		t.Error("no batch was a script, so this shows nothing")
	}
}

// TestBatch: releases and claims of one process in one call do what they would do one after the
// other, whether the locks are free, held by the process or held by another.
func TestBatch(t *testing.T) { batches(t, testBatch) }

func testBatch(t *testing.T, w *world) {
	w.open(0, time.Second)
	w.open(1, time.Second)
	a, b := w.claimFor(0, "a"), w.claimFor(0, "b")
	w.attempt(0, a.claim)
	w.attempt(0, b.claim)
	w.attempt(1, w.claimFor(1, "c").claim)
	w.compareAll()
	again, free, held := w.claimFor(0, "a"), w.claimFor(0, "d"), w.claimFor(0, "c")
	w.together(0, []*operation{again, a.release(), free, held, b.release()}, 5)
	for what, pair := range map[string][2]driver.State{
		"released in the same batch": {again.outcome.State, driver.Granted},
		"free":                       {free.outcome.State, driver.Granted},
		"held by another":            {held.outcome.State, driver.Queued},
	} {
		if pair[0] != pair[1] {
			t.Errorf("a claim for a lock that is %s is %v, want %v", what, pair[0], pair[1])
		}
	}
	w.compareAll()
}

// TestTombstonedInABatch: random steps seldom ask again, in company, for what they tombstoned.
func TestTombstonedInABatch(t *testing.T) { batches(t, testTombstonedInABatch) }

func testTombstonedInABatch(t *testing.T, w *world) {
	w.open(0, time.Second)
	w.open(1, time.Second)
	w.attempt(1, w.claimFor(1, "b").claim)
	free, held := w.claimFor(0, "a"), w.claimFor(0, "b")
	for _, o := range []*operation{free, held} {
		w.withdraw(0, driver.Withdrawal{Seq: o.claim.Seq, Name: o.claim.Name, Tombstone: true})
	}
	w.together(0, []*operation{w.claimFor(0, "c"), free, held, w.claimFor(0, "d")}, 2)
	if free.outcome.State != driver.Absent || held.outcome.State != driver.Absent {
		t.Errorf("tombstoned claims for a free lock and a held one are %v and %v", free.outcome.State, held.outcome.State)
	}
	w.compareAll()
}

// TestWithdrawnTwiceAtOnce: of two withdrawals of one grant that are made at once the
// second finds nothing (O4).
func TestWithdrawnTwiceAtOnce(t *testing.T) { batches(t, testWithdrawnTwiceAtOnce) }

func testWithdrawnTwiceAtOnce(t *testing.T, w *world) {
	w.open(0, time.Second)
	proc := w.procs[0]
	held := w.claimFor(0, "a")
	w.attempt(0, held.claim)
	ops := []*operation{held.release(), held.release()}
	w.send(proc, ops)
	found := map[driver.Removed]int{}
	for _, o := range ops {
		w.must(o.err)
		found[o.removed]++
	}
	if found[driver.WasGranted] != 1 || found[driver.WasAbsent] != 1 {
		t.Errorf("the withdrawals found %v and %v, want a grant once", ops[0].removed, ops[1].removed)
	}
}
