// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/timing"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// claimGauge counts the claims a client has in the store at a time.
type claimGauge struct {
	mu        sync.Mutex
	in        map[uint64]bool
	most, all int
}

func (g *claimGauge) watch(st *locktest.Tap) {
	g.in = map[uint64]bool{}
	st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
		g.mu.Lock()
		g.in[c.Seq] = true
		g.most, g.all = max(g.most, len(g.in)), g.all+1
		g.mu.Unlock()
		return next(ctx, c)
	}
	st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
		found, err := next(ctx, w)
		g.mu.Lock()
		delete(g.in, w.Seq)
		g.mu.Unlock()
		return found, err
	}
}

func TestTenThousandGoroutinesOneClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 10_000
		var gauge claimGauge
		st := tap(newStore())
		gauge.watch(st)
		c := newClient(t, st, nil)
		first := lock(t, c, "x")
		var wg sync.WaitGroup
		var served atomic.Int64
		last := first.Token()
		for i := range int64(n) {
			wg.Go(func() {
				l, err := c.Mutex("x").Lock(ctxb)
				if err != nil {
					t.Error(err)
					return
				}
				if turn := served.Add(1) - 1; turn != i {
					t.Errorf("number %d was served as number %d", i, turn)
				}
				if l.Token() <= last {
					t.Errorf("token %v after %v", l.Token(), last)
				}
				last = l.Token()
				unlock(t, l)
			})
			synctest.Wait() // so that they come in order
		}
		if before := gauge.all; before != 1 {
			t.Errorf("%d attempts while %d wait; want the holder's one", before, n)
		}
		unlock(t, first)
		wg.Wait()
		if served.Load() != n {
			t.Errorf("%d of %d were served", served.Load(), n)
		}
		if gauge.most != 1 {
			t.Errorf("%d claims of one client at a time; want 1", gauge.most)
		}
		if want := (n + 1) / driver.TokenStep; gauge.all > want+2 {
			t.Errorf("%d attempts; want about %d", gauge.all, want)
		}
		if coreOf(c).Queues() != 0 {
			t.Error("something is kept for a free lock")
		}
	})
}

func TestLocalHandoffHasAFreshToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := tap(newStore())
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		for range 10 {
			old := l.Context()
			w := start(ctxb, c.Mutex("x"))
			calls := st.Total()
			unlock(t, l)
			next := w.wait(t, 0)
			if st.Total() != calls {
				t.Errorf("a handoff cost %d calls", st.Total()-calls)
			}
			if next.Token() <= l.Token() || next.Token().Base() != l.Token().Base() {
				t.Errorf("token %v after %v", next.Token(), l.Token())
			}
			wantIs(t, "cause of the old context", context.Cause(old), fencelock.ErrReleased)
			if isDone(next.Context()) || fencelock.FromContext(next.Context(), "x") != next {
				t.Error("the new lease's context is not its own")
			}
			l = next
		}
	})
}

// A store without fencing gives no tokens, and a local handoff must not make
// numbers that a guard would take for some.
func TestNoTokenWithoutFencing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := locktest.Caps(newStore(), func(c *driver.Caps) { c.Fencing = driver.NoFencing })
		c := newClient(t, st, nil)
		l := lock(t, c, "x")
		for range 3 {
			if l.Token() != 0 {
				t.Fatalf("got token %v, want none", l.Token())
			}
			w := start(ctxb, c.Mutex("x"))
			unlock(t, l)
			l = w.wait(t, 0)
		}
	})
}

// crowd keeps so many goroutines of a client asking for a lock until stop; each
// holds it for a time. It returns how the tokens were given out.
func crowd(c *fencelock.Client, n int, hold time.Duration) (stop func() []fencelock.Token) {
	ctx, cancel := context.WithCancel(ctxb)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var tokens []fencelock.Token
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex("x").Lock(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				tokens = append(tokens, l.Token())
				mu.Unlock()
				time.Sleep(hold)
				_ = l.Unlock(ctxb)
			}
		})
	}
	synctest.Wait()
	return func() []fencelock.Token {
		cancel()
		wg.Wait()
		return tokens
	}
}

// longestRun returns how many tokens of one grant come in a row at most.
func longestRun(tokens []fencelock.Token) (longest int) {
	run, base := 0, fencelock.Token(0)
	for _, tok := range tokens {
		if tok.Base() != base {
			run, base = 0, tok.Base()
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

func TestLocalHandoffIsBoundedInNumber(t *testing.T) {
	for most, handoff := range map[int]time.Duration{1: -1, 256: time.Hour} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				greedy := newClient(t, m, &fencelock.Options{LocalHandoff: handoff})
				other := newClient(t, m, nil)
				stop := crowd(greedy, 10, 10*time.Millisecond)
				began := time.Now()
				unlock(t, start(ctxb, other.Mutex("x")).wait(t, time.Minute))
				if waited := time.Since(began); waited > time.Duration(most)*10*time.Millisecond {
					t.Errorf("another process waited for %v", waited)
				}
				time.Sleep(10 * time.Second)
				if got := longestRun(stop()); got != most {
					t.Errorf("%d leases in a row on one grant; want %d", got, most)
				}
			})
		})
	}
}

func TestLocalHandoffIsBoundedInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		greedy := newClient(t, m, nil)
		other := newClient(t, m, nil)
		stop := crowd(greedy, 10, 40*time.Millisecond)
		for range 5 {
			began := time.Now()
			unlock(t, start(ctxb, other.Mutex("x")).wait(t, time.Minute))
			if waited := time.Since(began); waited > timing.DefaultLocalHandoff+40*time.Millisecond {
				t.Errorf("another process waited for %v", waited)
			}
		}
		time.Sleep(10 * time.Second)
		if got := longestRun(stop()); got < 2 || got > 4 {
			t.Errorf("%d leases of 40 ms in a row; want %v of them", got, timing.DefaultLocalHandoff)
		}
	})
}

// A handoff must not outlive the trust in the session.
func TestNoHandoffAfterTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n napper
		m := newStore()
		c := n.client(t, m)
		l := lock(t, c, "x")
		w := start(ctxb, c.Mutex("x"))
		n.suspend(time.Hour) // the client has not noticed yet
		m.StepClock(time.Hour)
		time.Sleep(2 * time.Millisecond)
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost)
		next := w.wait(t, time.Second)
		if next.Token().Base() == l.Token().Base() || !next.Valid() {
			t.Errorf("token %v was handed on as %v", l.Token(), next.Token())
		}
	})
}

func TestTryLockDoesNotOvertakeTheLocalQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), &fencelock.Options{LocalHandoff: -1})
		l := lock(t, c, "x")
		w := start(ctxb, c.Mutex("x"))
		unlock(t, l) // back to the store, which the waiter is now to call
		if _, err := c.Mutex("x").TryLock(ctxb); err == nil {
			t.Error("TryLock got the lock before the waiter")
		}
		unlock(t, w.wait(t, 0))
	})
}

func TestTurnsBetweenProcessesAreInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		l := lock(t, newClient(t, m, nil), "x")
		var line []*acquisition
		for range 50 { // all within the same second
			line = append(line, start(ctxb, newClient(t, m, nil).Mutex("x")))
		}
		for i, a := range line {
			unlock(t, l)
			next := a.wait(t, 0) // at once: the store pushes
			if next.Token() <= l.Token() {
				t.Errorf("number %d: token %v after %v", i, next.Token(), l.Token())
			}
			l = next
		}
	})
}

// The push wakes the one process that was granted the lock; no other process calls the
// store.
func TestHandoffBetweenProcessesIsTwoCallsAndAPush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := memstore.New(nil)
		a, b, st := tap(m), tap(m), tap(m)
		l := lock(t, newClient(t, a, nil), "x")
		w := start(ctxb, newClient(t, b, nil).Mutex("x"))
		idle := start(ctxb, newClient(t, st, nil).Mutex("x"))
		before := [3]int{a.Total(), b.Total(), st.Total()}
		unlock(t, l)
		next := w.wait(t, 0)
		got := [3]int{a.Total() - before[0], b.Total() - before[1], st.Total() - before[2]}
		if want := [3]int{1, 0, 0}; got != want {
			t.Errorf("calls for a handoff: %v; want %v", got, want)
		}
		if n := len(b.Sent(faultstore.Attempt)); n != 1 {
			t.Errorf("%d attempts of the one who waited; want 1", n)
		}
		unlock(t, next)
		unlock(t, idle.wait(t, 0))
	})
}

// Right after a suspend, however recently the clock was read: Unlock reports that the
// lease is lost, and the lease is not handed off.
func TestUnlockRightAfterASuspend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n napper
		store := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(n.suspended()) }})
		c := n.client(t, store)
		l := lock(t, c, "x")
		w := start(ctxb, c.Mutex("x"))
		if !l.Valid() {
			t.Fatal("not valid")
		}
		n.suspend(time.Hour)
		other := lock(t, newClient(t, store, nil), "x")
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost)
		if w.over() {
			t.Errorf("handed off to token %v", w.lease.Token())
		}
		unlock(t, other)
		unlock(t, w.wait(t, time.Minute))
	})
}
