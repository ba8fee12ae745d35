// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// gate keeps calls of scripts until it is opened.
type gate struct {
	arrived chan struct{}
	opened  chan struct{}
}

// shut makes a gate.
func (p *pretence) shut() *gate {
	g := &gate{arrived: make(chan struct{}, 16), opened: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate, p.most = g, 0
	return g
}

// batched are the operations of a batch.
var batched = regexp.MustCompile(`^[WAT]+$`)

// pass makes batches wait at the gate, if there is one, and notes how many
// operations pass it in one.
func (p *pretence) pass(cmd redis.Cmder) {
	args := cmd.Args()
	if cmd.Name() != "evalsha" || len(args) <= 10 {
		return
	}
	ops, _ := args[10].(string) // EVALSHA sha 1 key, then as batch.lua has it
	if !batched.MatchString(ops) {
		return
	}
	p.mu.Lock()
	g := p.gate
	p.most = max(p.most, len(ops))
	p.mu.Unlock()
	if g != nil {
		g.arrived <- struct{}{}
		<-g.opened
	}
}

func (p *pretence) carried() int {
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
// Two calls in flight, which withdraw claims that were never made, delay the operations
// until all of them are queued.
func (w *world) send(p *proc, ops []*operation) int {
	gate := w.p.shut()
	var plugs sync.WaitGroup
	for range 2 {
		p.seq++
		none := driver.Withdrawal{Seq: p.seq, Name: w.names[0]}
		plugs.Go(func() { _, _ = p.real.Withdraw(w.ctx, none) })
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

// together does operations of one process in one call, and then on the model in the
// order in which the script does them.
func (w *world) together(i int, ops []*operation) {
	w.t.Helper()
	p := w.procs[i]
	if n := w.send(p, ops); n != len(ops) {
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

// batch draws operations that leave together: withdrawals of different claims, and
// attempts of others for different names. Those of one claim have no order if they are
// made at once.
func (m *machine) batch(t *rapid.T) {
	i := m.process(t)
	p := m.w.procs[i]
	var ops []*operation
	names, left := slices.Clone(m.w.names), slices.Clone(p.claims)
	for range rapid.IntRange(2, 8).Draw(t, "operations") {
		kind := rapid.SampledFrom([]string{"attempt", "attempt", "again", "withdraw"}).Draw(t, "operation")
		if kind != "withdraw" && len(names) > 0 {
			if c := m.plainClaim(t, i, names, left, kind == "again"); c != nil {
				left = slices.DeleteFunc(left, func(o *driver.Claim) bool { return o == c })
				names = slices.DeleteFunc(names, func(n string) bool { return n == c.Name })
				ops = append(ops, &operation{claim: c, what: fmt.Sprintf("attempt p%d:%d %q %v", i, c.Seq, c.Name, termsText(c))})
			}
			continue
		}
		if len(left) > 0 {
			at := rapid.IntRange(0, len(left)-1).Draw(t, "withdrawn")
			c := left[at]
			left = slices.Delete(left, at, at+1)
			ops = append(ops, &operation{gone: driver.Withdrawal{Seq: c.Seq, Name: c.Name},
				what: fmt.Sprintf("withdraw p%d:%d %q", i, c.Seq, c.Name)})
		}
	}
	if len(ops) < 2 {
		t.Skip("nothing to send together")
	}
	m.w.together(i, ops)
}

// plainClaim draws a claim that can be in a batch with others, for one of the names: a new
// one, or one of those that are left.
func (m *machine) plainClaim(t *rapid.T, i int, names []string, left []*driver.Claim, again bool) *driver.Claim {
	p := m.w.procs[i]
	floor := driver.Token(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 3}).Draw(t, "floor"))
	if again {
		var all []*driver.Claim
		for _, c := range left {
			plain := c.Terms.Mode == driver.Exclusive && c.Terms.Reentry == "" && c.Terms.MinHold == 0 && c.Terms.MaxHold == 0
			if plain && slices.Contains(names, c.Name) {
				all = append(all, c)
			}
		}
		if len(all) == 0 {
			return nil
		}
		c := rapid.SampledFrom(all).Draw(t, "again")
		c.Floor, c.Lift = floor, false
		return c
	}
	p.seq++
	c := &driver.Claim{Seq: p.seq, Name: rapid.SampledFrom(names).Draw(t, "name"), Floor: floor,
		Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Reason: "batch"}}, Queue: rapid.Bool().Draw(t, "queue")}
	if rapid.Bool().Draw(t, "own record") {
		c.Terms.Record.Reason = fmt.Sprintf("claim %d of p%d", c.Seq, i)
	}
	if m.w.p.now.Before(p.end) {
		p.claims = append(p.claims, c)
	}
	return c
}

// TestTombstonedInABatch: random steps seldom ask again, in company, for what they tombstoned.
func TestTombstonedInABatch(t *testing.T) {
	t.Parallel()
	p, store := pretended(t)
	p.proven = true
	w := newWorld(t, p, store, nil)
	w.open(0, time.Second)
	w.open(1, time.Second)
	attempt := func(i int, name string) *operation {
		w.procs[i].seq++
		c := &driver.Claim{Seq: w.procs[i].seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		return &operation{claim: c, what: fmt.Sprintf("attempt p%d:%d %q", i, c.Seq, name)}
	}
	w.attempt(1, attempt(1, "b").claim)
	free, held := attempt(0, "a"), attempt(0, "b")
	for _, o := range []*operation{free, held} {
		w.withdraw(0, driver.Withdrawal{Seq: o.claim.Seq, Name: o.claim.Name, Tombstone: true})
	}
	w.together(0, []*operation{attempt(0, "c"), free, held, attempt(0, "d")})
	if free.outcome.State != driver.Absent || held.outcome.State != driver.Absent {
		t.Errorf("tombstoned claims for a free lock and a held one are %v and %v", free.outcome.State, held.outcome.State)
	}
	w.compareAll()
}

// TestWithdrawnTwiceAtOnce: of two withdrawals of one grant that are made at once the
// second finds nothing (O4).
func TestWithdrawnTwiceAtOnce(t *testing.T) {
	t.Parallel()
	p, store := pretended(t)
	p.proven = true
	w := newWorld(t, p, store, nil)
	w.open(0, time.Second)
	proc := w.procs[0]
	proc.seq++
	w.attempt(0, &driver.Claim{Seq: proc.seq, Name: "a", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	gone := driver.Withdrawal{Seq: proc.seq, Name: "a"}
	ops := []*operation{{gone: gone}, {gone: gone}}
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
