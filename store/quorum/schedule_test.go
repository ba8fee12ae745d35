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
	"github.com/fencelock/fencelock/store/faultstore"
)

var seeds = flag.Int("quorum.seeds", 60, "how many schedules TestSchedules runs")

// held is one lease as the history has it.
type held struct {
	who        int
	token      fencelock.Token
	from, till time.Duration // asked for; and the end of what its holder believed
	got        time.Duration
}

// TestSchedules lets processes, each with its own bad connections, compete for one lock
// while nodes stall, lose messages and lose their data. Clocks are good, so leases must not
// overlap; tokens must be unique and rise; and when the faults are over any client must be
// able to acquire the lock.
func TestSchedules(t *testing.T) {
	granted, n := 0, *seeds
	if testing.Short() { // the race detector makes each ten times as long
		n = min(n, 12)
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { granted += schedule(t, seed) })
		})
	}
	t.Logf("%d schedules, %d leases", n, granted)
}

// bad draws the faults of one process's way to one node.
func bad(r *rand.Rand, until time.Duration) faultstore.Fault {
	during := func(f faultstore.Fault) faultstore.Fault { return faultstore.During(0, until, f) }
	from := time.Duration(r.Int64N(int64(until)))
	all := []faultstore.Fault{
		during(faultstore.Prob(0.1*r.Float64(), r.Uint64N(1000), faultstore.LoseRequest())),
		during(faultstore.Prob(0.1*r.Float64(), r.Uint64N(1000), faultstore.LoseReply())),
		during(faultstore.Prob(0.2*r.Float64(), r.Uint64N(1000), faultstore.Delay(time.Duration(1+r.IntN(300))*time.Millisecond, time.Millisecond))),
		during(faultstore.On(faultstore.Attempt, faultstore.Prob(0.1*r.Float64(), r.Uint64N(1000), faultstore.Dup()))),
	}
	if r.IntN(3) == 0 {
		all = append(all, faultstore.During(from, min(until, from+10*time.Second), faultstore.LoseRequest()))
	}
	return faultstore.Any(all...)
}

func schedule(t *testing.T, seed uint64) int {
	const faulty = 60 * time.Second
	r := rand.New(rand.NewPCG(seed, 1))
	n := 3 + 2*r.IntN(2)
	g := newRig(t, n, grace())
	var mu sync.Mutex
	var history []held
	ctx, cancel := context.WithTimeout(t.Context(), faulty)
	defer cancel()
	var wg sync.WaitGroup
	for who := range 3 {
		faults := map[int]faultstore.Fault{}
		for i := range n {
			faults[i] = bad(r, faulty)
		}
		c := g.process(faults, &fencelock.Options{TTL: 3 * time.Second})
		pauses := rand.New(rand.NewPCG(seed, uint64(100+who)))
		wg.Go(func() {
			for ctx.Err() == nil {
				if h, ok := once(ctx, g, c, who, time.Duration(pauses.IntN(2000))*time.Millisecond); ok {
					mu.Lock()
					history = append(history, h)
					mu.Unlock()
				}
			}
		})
	}
	for range r.IntN(4) { // a minority at a time, or now and then all
		time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second))))
		some := r.Perm(n)[:1+r.IntN((n-1)/2)]
		if r.IntN(4) == 0 {
			some = r.Perm(n)
		}
		for _, i := range some {
			g.log("node %s forgets", nodeName(i))
			g.stores[i].Reset()
		}
	}
	wg.Wait()
	judge(t, history)
	g.log("the faults are over")
	last, err := g.process(nil, nil).Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatalf("after the faults: %v", err)
	}
	for _, h := range history {
		if h.token >= last.Token() {
			t.Errorf("token %v came after %v", last.Token(), h.token)
		}
	}
	if took := time.Since(g.began) - faulty; took > 45*time.Second {
		t.Errorf("the lock was free %v after the faults", took)
	}
	return len(history)
}

// once takes the lock, works under it for a time and gives it back.
func once(ctx context.Context, g *rig, c *fencelock.Client, who int, work time.Duration) (held, bool) {
	h := held{who: who, from: time.Since(g.began)}
	l, err := c.Mutex("x").Lock(ctx)
	if err != nil {
		return h, false
	}
	h.token, h.got = l.Token(), time.Since(g.began)
	g.log("process %d holds with token %v; %s", who, l.Token(), g.holders("x"))
	working, stop := context.WithTimeout(l.Context(), work)
	<-working.Done()
	stop()
	h.till = time.Since(g.began)
	err = l.Unlock(context.Background())
	g.log("process %d unlocks %v: %v", who, l.Token(), err)
	return h, true
}

// judge compares every two leases.
func judge(t *testing.T, history []held) {
	for i, a := range history {
		for _, b := range history[:i] {
			if a.token == b.token {
				t.Errorf("two leases have the token %v", a.token)
			}
			if a.got < b.till && b.got < a.till {
				t.Errorf("leases with tokens %v and %v overlap: %v to %v and %v to %v", a.token, b.token, a.got, a.till, b.got, b.till)
			}
			if a.got < b.from && a.token >= b.token || b.got < a.from && b.token >= a.token {
				t.Errorf("tokens %v and %v came in the wrong order", a.token, b.token)
			}
		}
	}
}
