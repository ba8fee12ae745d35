// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

var (
	settleSeeds = flag.Int("quorum.settle", 20, "how many schedules TestSettles runs")
	settleFirst = flag.Int("quorum.settle.first", 0, "the seed of the first")
)

// settling is one schedule: what is drawn before it begins, and what came of it.
type settling struct {
	*rig
	seed    uint64
	r       *rand.Rand
	ttl     time.Duration
	grace   bool
	lost    bool // data
	stepped bool // a clock, forward: leases may overlap, and do so with rising tokens
	far     bool // by so much that the node does not count
	names   []string

	guard   sync.Mutex
	history map[string][]held
	broken  map[fencelock.Token]bool
}

// kinds are what is locked: the name of a lock begins with its kind.
var kinds = []string{"lock", "sem", "rw", "re"}

const (
	chaos     = 25 * time.Second // how long there are faults
	settleMax = 10 * time.Second // the longest TTL of the nodes, and their grace
)

// TestSettles is about what stays when faults are over. Processes lock, try, give up and unlock while nodes are slow, lose
// messages, refuse, lose their data, end sessions, and while an operator breaks locks. Most faults strike a minority, so sessions
// outlive them, and what a process remembers wrongly would stay with it. Afterwards, while the sessions are kept alive by one lock
// each, nothing may be left: no claim on a node, none in memory, and every process can have every lock.
func TestSettles(t *testing.T) {
	n := *settleSeeds
	if testing.Short() {
		n = min(n, 4)
	}
	for seed := *settleFirst; seed < *settleFirst+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { settle(t, uint64(seed)) })
		})
	}
}

func settle(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	g := &settling{seed: seed, r: r, grace: r.IntN(3) > 0, ttl: 3 * time.Second, history: map[string][]held{}, broken: map[fencelock.Token]bool{}}
	n := 3 + 2*r.IntN(2)
	opts := memstore.Options{Grace: g.grace, MaxTTL: settleMax, NoPush: r.IntN(4) == 0, NoQueue: r.IntN(4) == 0}
	g.rig = newRig(t, n, &opts)
	for i := range 4 { // more than a few: the next claim of the same name may repair what the one before left
		for _, kind := range kinds {
			g.names = append(g.names, kind+fmt.Sprint(i))
		}
	}
	nodeTimeout := []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second}[r.IntN(3)]
	g.log("%d nodes, grace %v, no push %v, no queue %v, node timeout %v", n, g.grace, opts.NoPush, opts.NoQueue, nodeTimeout)
	storms := g.storms(n)
	ctx, cancel := context.WithTimeout(t.Context(), chaos)
	defer cancel()
	var stores []*quorum.Store
	var clients []*fencelock.Client
	var work, keeping sync.WaitGroup
	over, stop := context.WithCancel(t.Context())
	defer stop()
	for who := range 1 + r.IntN(3) {
		s, err := quorum.New(g.nodes(g.faults(n, storms)), &quorum.Options{Alarm: g.alarm, NodeTimeout: nodeTimeout})
		if err != nil {
			t.Fatal(err)
		}
		c := g.with(s, &fencelock.Options{TTL: g.ttl})
		stores, clients = append(stores, s), append(clients, c)
		keeping.Go(func() { g.keep(over, c, who) })
		g.busy(ctx, c, who, storms, &work)
	}
	for _, s := range storms {
		work.Go(func() { g.strike(s) })
	}
	if r.IntN(2) == 0 {
		p := rand.New(rand.NewPCG(seed, 300))
		work.Go(func() { g.operator(ctx, clients[p.IntN(len(clients))], p) })
	}
	work.Wait()
	time.Sleep(max(0, chaos-time.Since(g.began)))
	g.log("the faults are over")
	time.Sleep(2*settleMax + settleMax + time.Minute)
	g.settled(t, stores)
	for who, c := range clients {
		g.all(t, who, c)
	}
	time.Sleep(time.Second)
	g.settled(t, stores)
	g.judge(t)
	stop()
	keeping.Wait()
}

// busy lets a process work: some hands, each of which takes one lock after the other, and some bursts of many locks.
func (g *settling) busy(ctx context.Context, c *fencelock.Client, who int, storms []storm, work *sync.WaitGroup) {
	for hand := range 1 + g.r.IntN(4) {
		p := rand.New(rand.NewPCG(g.seed, uint64(100+10*who+hand)))
		work.Go(func() {
			for ctx.Err() == nil {
				g.turn(ctx, c, who, p)
				time.Sleep(time.Duration(p.IntN(200)) * time.Millisecond)
			}
		})
	}
	for i := range g.r.IntN(3) { // just before something happens to a node, with names that nothing locks later: that may repair them
		at := max(0, storms[g.r.IntN(len(storms))].at-time.Duration(g.r.IntN(2000))*time.Millisecond)
		var names []string
		for k := range []int{10, 30, 200}[g.r.IntN(3)] { // 200 are more than one batch of repeated withdrawals
			names = append(names, fmt.Sprintf("many/%d/%d/%d", who, i, k))
		}
		g.names = append(g.names, names...)
		work.Go(func() { g.many(at, c, names, rand.New(rand.NewPCG(g.seed, uint64(200+10*who+i)))) })
	}
}

// keep holds one lock, so that the session is kept alive.
func (g *settling) keep(ctx context.Context, c *fencelock.Client, who int) {
	for ctx.Err() == nil {
		l, err := c.Mutex(fmt.Sprint("keep/", who)).Lock(ctx)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		select {
		case <-l.Context().Done():
		case <-ctx.Done():
		}
		g.log("process %d keeps no more: %v", who, context.Cause(l.Context()))
		_ = l.Unlock(context.Background())
	}
}

// upTo is a time of at most n milliseconds.
func upTo(p *rand.Rand, n int) time.Duration { return time.Duration(1+p.IntN(n)) * time.Millisecond }

// take takes a lock in one of the ways of its kind, and reports whether nobody else may have it.
func take(ctx context.Context, c *fencelock.Client, kind, name string, p *rand.Rand) (l *fencelock.Lease, exclusive bool, err error) {
	try := p.IntN(4) == 0
	var opts []fencelock.LockOption
	switch p.IntN(12) {
	case 0:
		opts = append(opts, fencelock.MaxHold(upTo(p, 1000)))
	case 1:
		opts = append(opts, fencelock.MinHold(upTo(p, 1000)))
	}
	switch {
	case kind == "sem" && try:
		l, err = c.Semaphore(name, 2).TryAcquire(ctx, 1)
	case kind == "sem":
		l, err = c.Semaphore(name, 2).Acquire(ctx, int64(1+p.IntN(2)))
	case kind == "rw" && p.IntN(3) > 0:
		l, err = c.RWMutex(name).RLock(ctx)
	case kind == "rw":
		if l, err = c.RWMutex(name).Lock(ctx); err == nil && p.IntN(2) == 0 {
			_ = c.RWMutex(name).Downgrade(ctx, l)
		}
	case kind == "re":
		l, err = c.Mutex(name, fencelock.ReentrantAs("job")).Lock(ctx)
	case try:
		l, err = c.Mutex(name, opts...).TryLock(ctx)
		exclusive = true
	default:
		l, err = c.Mutex(name, opts...).Lock(ctx)
		exclusive = true
	}
	return l, exclusive, err
}

// turn takes a lock, holds it for a time and gives it back.
func (g *settling) turn(ctx context.Context, c *fencelock.Client, who int, p *rand.Rand) {
	wait := []time.Duration{upTo(p, 30), upTo(p, 300), upTo(p, 3000), 10 * time.Second}[p.IntN(4)]
	ctx, giveUp := context.WithTimeout(ctx, wait)
	defer giveUp()
	kind := kinds[p.IntN(len(kinds))]
	name := kind + fmt.Sprint(p.IntN(4))
	h := held{who: who, from: time.Since(g.began)}
	l, exclusive, err := take(ctx, c, kind, name, p)
	if err != nil {
		g.log("process %d does not get %s within %v: %.200s", who, name, time.Since(g.began)-h.from, err)
		return
	}
	h.token, h.got = l.Token(), time.Since(g.began)
	g.log("process %d has %s with token %v; %s", who, name, l.Token(), g.holders(name))
	if p.IntN(4) == 0 {
		_ = l.Contended()
	}
	select {
	case <-l.Context().Done():
	case <-time.After(upTo(p, []int{2, 300, 1500}[p.IntN(3)])):
	}
	h.till = time.Since(g.began)
	if exclusive {
		g.guard.Lock()
		g.history[name] = append(g.history[name], h)
		g.guard.Unlock()
	}
	patience, stop := context.WithTimeout(context.Background(), []time.Duration{0, upTo(p, 100), time.Minute}[p.IntN(3)])
	defer stop()
	err = l.Unlock(patience)
	g.log("process %d unlocks %s with token %v: %v", who, name, l.Token(), err)
}

// many takes many locks at once, each for a time of its own.
func (g *settling) many(at time.Duration, c *fencelock.Client, names []string, p *rand.Rand) {
	time.Sleep(at)
	long := 1 + p.IntN(3000)
	var wg sync.WaitGroup
	for _, name := range names {
		wait, hold, sem := time.Duration(1+p.IntN(long))*time.Millisecond, time.Duration(p.IntN(long))*time.Millisecond, p.IntN(2) == 0
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			acquire := c.Mutex(name).Lock
			if sem {
				acquire = func(ctx context.Context) (*fencelock.Lease, error) { return c.Semaphore(name, 2).Acquire(ctx, 1) }
			}
			if l, err := acquire(ctx); err == nil {
				time.Sleep(hold)
				_ = l.Unlock(ctx)
			}
		})
	}
	wg.Wait()
	g.log("%d locks at once are over", len(names))
}

// operator breaks locks.
func (g *settling) operator(ctx context.Context, c *fencelock.Client, p *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(p.IntN(3000)) * time.Millisecond)
		name := g.names[p.IntN(16)]
		st, err := c.Inspect(ctx, name)
		if err != nil || len(st.Holders) == 0 {
			continue
		}
		token := st.Holders[0].Token
		g.guard.Lock()
		g.broken[token.Base()] = true
		g.guard.Unlock()
		_, err = c.ForceUnlock(ctx, name, token)
		g.log("an operator breaks %s with token %v: %v", name, token, err)
	}
}

// settled wants that nothing is left but the lock that keeps each session alive.
func (g *settling) settled(t *testing.T, stores []*quorum.Store) {
	t.Helper()
	for _, name := range g.names {
		if n := g.taken(name); n != 0 {
			t.Errorf("%s is unlocked and on %d nodes: %s", name, n, g.holders(name))
		}
		for i, s := range g.stores {
			if st, err := s.Inspect(t.Context(), name); err != nil || st.Waiting > 0 {
				t.Errorf("node %s: %d claims wait for %s, %v", nodeName(i), st.Waiting, name, err)
			}
		}
	}
	for who, s := range stores {
		if claims, owed := s.Kept(); claims != 1 { // what is owed of a lock that is held is not asked for until it is unlocked
			t.Errorf("process %d keeps %d claims (%d to be withdrawn), want 1", who, claims, owed)
		}
		if n := s.Bodies(); n != 1 {
			t.Errorf("process %d has %d sessions, want 1", who, n)
		}
		if n := g.taken(fmt.Sprint("keep/", who)); n != len(g.stores) {
			t.Errorf("the lock that keeps the session of process %d alive is on %d nodes, want all", who, n)
		}
	}
}

// all takes every lock, and every permit of it, which needs all nodes.
func (g *settling) all(t *testing.T, who int, c *fencelock.Client) {
	t.Helper()
	for _, name := range g.names {
		// The permit comes first: giving back a lock that is on a majority may repair what keeps a permit from the last node.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		l, err := c.Semaphore(name, 1).Acquire(ctx, 1)
		if err != nil {
			t.Errorf("process %d: permit of %s: %v", who, name, err)
		} else if err := l.Unlock(ctx); err != nil {
			t.Errorf("process %d: release %s: %v", who, name, err)
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		from := time.Since(g.began)
		l, err = c.Mutex(name).Lock(ctx)
		if err != nil {
			t.Errorf("process %d: lock %s: %v", who, name, err)
		} else {
			g.history[name] = append(g.history[name], held{who: who, token: l.Token(), from: from, got: time.Since(g.began), till: time.Since(g.began)})
			if err := l.Unlock(ctx); err != nil {
				t.Errorf("process %d: unlock %s: %v", who, name, err)
			}
		}
		cancel()
	}
}

// judge compares every two exclusive leases, as far as the clocks and the grace of the nodes allow a promise.
func (g *settling) judge(t *testing.T) {
	t.Helper()
	ordered, apart := !g.lost || g.grace && !g.far, (!g.lost || g.grace) && !g.stepped
	for name, history := range g.history {
		for i, a := range history {
			for _, b := range history[:i] {
				if ordered && (a.got < b.from && a.token >= b.token || b.got < a.from && b.token >= a.token || a.token == b.token) {
					t.Errorf("%s: tokens %v and %v came in the wrong order", name, a.token, b.token)
				}
				if apart && a.got < b.till && b.got < a.till && !g.broken[min(a.token, b.token).Base()] {
					t.Errorf("%s: leases with tokens %v and %v overlap: %v to %v and %v to %v", name, a.token, b.token, a.got, a.till, b.got, b.till)
				}
			}
		}
	}
}
