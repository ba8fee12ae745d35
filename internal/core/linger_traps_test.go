// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// The tests of this file have the numbers of the traps of lingering, as the review that
// proposed it counted them.

// mute is a process that was killed: nothing of it reaches the store any more.
func mute(st *locktest.Tap) (kill func()) {
	var dead atomic.Bool
	gone := func() error {
		if dead.Load() {
			return fmt.Errorf("killed: %w", driver.ErrUnavailable)
		}
		return nil
	}
	st.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
		if err := gone(); err != nil {
			return driver.Renewal{}, err
		}
		return next(ctx)
	}
	st.OnWithdraw = func(ctx context.Context, w driver.Withdrawal, next locktest.WithdrawFunc) (driver.Removed, error) {
		if err := gone(); err != nil {
			return driver.WasAbsent, err
		}
		return next(ctx, w)
	}
	st.OnClose = func(context.Context) error { return gone() }
	return func() { dead.Store(true) }
}

// A process that is killed while a lock lingers costs others a TTL, as any holder.
func TestLinger01KilledAfterTheUnlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		st := tap(store)
		kill := mute(st)
		c, err := fencelock.New(st, nil)
		must.OK(t, err)
		other := newClient(t, store, nil)
		idle(t, c, "x")
		kill()
		began := time.Now()
		unlock(t, lock(t, other, "x"))
		if waited := time.Since(began); waited > ttl+ttl/10 {
			t.Errorf("waited %v for a dead process; the TTL is %v", waited, ttl)
		}
		_ = c.Close(ctxb) // nothing of it reaches the store
	})
}

// Unlock does not learn from the store that the lock was broken. The token is fenced, and
// the next lease on the grant is lost with the next renewal.
func TestLinger03UnlockOfABrokenLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, store, nil)
		l := lock(t, c, "x", linger)
		fence, err := c.ForceUnlock(ctxb, "x", l.Token())
		must.OK(t, err)
		unlock(t, l)
		again := lock(t, c, "x", linger)
		if again.Token() >= fence {
			t.Errorf("token %v passes the fence %v", again.Token(), fence)
		}
		held := again.Context()
		began := time.Now()
		if at := ended(t, held); at.Sub(began) > renewal {
			t.Errorf("notified after %v", at.Sub(began))
		}
		wantIs(t, "cause", context.Cause(held), fencelock.ErrLost, fencelock.LossForceUnlock)
		wantIs(t, "Unlock", again.Unlock(ctxb), fencelock.LossForceUnlock)
	})
}

// A notice that is lost costs a waiter the time of lingering, however often the lock is
// taken again.
func TestLinger04LostNotice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		st := tap(store)
		st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			req.Contended = nil
			return next(ctx, req)
		}
		c, other := newClient(t, st, nil), newClient(t, store, nil)
		idle(t, c, "x")
		began := time.Now()
		next := start(ctxb, other.Mutex("x"))
		const pause = lingering / 20
		for range 30 {
			if next.over() {
				break
			}
			idle(t, c, "x")
			time.Sleep(pause)
		}
		unlock(t, next.wait(t, lingering))
		if waited := next.at.Sub(began); waited > lingering+pause {
			t.Errorf("waited %v; the lock may linger for %v", waited, lingering)
		}
	})
}

// The lingering ends while the hook of an unlock runs: the lock is given back then, and not kept
// for as long as the session lives.
func TestLingerEndsDuringAnUnlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, opts := newStore(), &fencelock.Options{}
		slow := false
		opts.Hooks.Event = func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseReleased && slow {
				time.Sleep(lingering)
			}
		}
		c := newClient(t, store, opts)
		other := lock(t, c, "y")
		idle(t, c, "x")
		time.Sleep(lingering / 2)
		slow = true
		idle(t, c, "x")
		slow = false
		time.Sleep(lingering)
		wantClaims(t, store, "x", 0, 0)
		unlock(t, other)
	})
}

// The notice may come before the answer to the attempt.
func TestLinger05NoticeBeforeTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		st := tap(store)
		var notify func(uint64)
		st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			notify = req.Contended
			return next(ctx, req)
		}
		st.OnAttempt = func(ctx context.Context, c *driver.Claim, next locktest.AttemptFunc) (driver.Outcome, error) {
			out, err := next(ctx, c)
			notify(c.Seq)
			return out, err
		}
		c := newClient(t, st, nil)
		idle(t, c, "x")
		wantClaims(t, store, "x", 0, 0)
	})
}

// An idle grant is not reclaimed after a data loss.
func TestLinger06DataLoss(t *testing.T) {
	for _, grace := range []bool{false, true} {
		t.Run(fmt.Sprint("grace ", grace), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := memstore.New(&memstore.Options{Grace: grace, MaxTTL: ttl})
				st := tap(store)
				var reclaimed int
				st.OnReclaim = func(ctx context.Context, held []driver.Held, last bool, next locktest.ReclaimFunc) ([]bool, error) {
					reclaimed += len(held)
					return next(ctx, held, last)
				}
				c := newClient(t, st, nil)
				long := fencelock.Linger(ttl)
				l := lock(t, c, "x", long)
				unlock(t, l)
				store.Restart() // it still has the grant
				again := lock(t, c, "y", long)
				time.Sleep(renewal)
				if reclaimed != 0 {
					t.Errorf("%d grants were reclaimed; want none, because the lock was idle", reclaimed)
				}
				wantClaims(t, store, "x", 0, 0)
				next := lock(t, c, "x", long)
				if next.Token().Base() == l.Token().Base() {
					t.Error("a grant from before the loss was taken again")
				}
				unlock(t, next)
				unlock(t, again)
			})
		})
	}
}

// Nothing lingers while renewals fail: what is idle is given back first.
func TestLinger06SessionInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		st := tap(store)
		var failing atomic.Bool
		st.OnAlive = func(ctx context.Context, next locktest.AliveFunc) (driver.Renewal, error) {
			if failing.Load() {
				return driver.Renewal{}, driver.ErrUnavailable
			}
			return next(ctx)
		}
		c := newClient(t, st, nil)
		long := fencelock.Linger(ttl)
		unlock(t, lock(t, c, "x", long))
		failing.Store(true)
		time.Sleep(renewal)
		wantClaims(t, store, "x", 0, 0)
		unlock(t, lock(t, c, "x", long))
		wantClaims(t, store, "x", 0, 0)
		failing.Store(false)
		time.Sleep(renewal)
		unlock(t, lock(t, c, "x", long))
		wantClaims(t, store, "x", 1, 0)
	})
}

// A lock that is broken while it is idle has no holder that is notified.
func TestLinger07BrokenWhileIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, opts := newStore(), &fencelock.Options{}
		lost := 0
		opts.Hooks.Event = func(e fencelock.Event) {
			if e.Kind == fencelock.LeaseLost {
				lost++
			}
		}
		c := newClient(t, store, opts)
		l := lock(t, c, "x", fencelock.Linger(ttl))
		unlock(t, l)
		fence, err := c.ForceUnlock(ctxb, "x", l.Token())
		must.OK(t, err)
		time.Sleep(renewal)
		next := lock(t, c, "x", fencelock.Linger(ttl))
		if next.Token() <= fence || lost != 0 {
			t.Errorf("token %v behind the fence %v, and %d leases lost; want one above it and none", next.Token(), fence, lost)
		}
		unlock(t, next)
	})
}

// An idle grant does not keep its session.
func TestLinger08SessionRetires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		st := tap(store)
		c := newClient(t, st, nil)
		unlock(t, lock(t, c, "x", fencelock.Linger(ttl)))
		time.Sleep(trust + renewal + suspendTick)
		if n := len(st.Sent(faultstore.Close)); n != 1 {
			t.Errorf("%d sessions were closed; want one", n)
		}
		wantClaims(t, store, "x", 0, 0)
		idle(t, c, "x")
	})
}

// A scan over many names does not keep all of them.
func TestLinger09ManyNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 1024
		store := newStore()
		c := newClient(t, store, nil)
		held := func() (n int) {
			for lock, err := range c.List(ctxb, "") {
				must.OK(t, err)
				n += len(lock.Holders)
			}
			return n
		}
		for i := range most + 300 {
			idle(t, c, fmt.Sprint("scan/", i))
		}
		synctest.Wait()
		if n := held(); n != most {
			t.Errorf("%d locks linger; want %d", n, most)
		}
		time.Sleep(lingering + time.Millisecond)
		synctest.Wait()
		if n := held(); n != 0 {
			t.Errorf("%d locks linger after their time", n)
		}
		idle(t, c, "after")
		if n := held(); n != 1 {
			t.Errorf("%d locks linger; want one", n)
		}
	})
}

// Deadline and lingering are compared with a clock that counts suspends.
func TestLinger10Suspended(t *testing.T) {
	for name, d := range map[string]time.Duration{"longer than the TTL": time.Hour, "longer than the lingering": 2 * lingering} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var n napper
				st := tap(newStore())
				c := n.client(t, st)
				last := idle(t, c, "x")
				n.suspend(d)
				l := lock(t, c, "x", linger)
				if l.Token().Base() == last.Base() {
					t.Errorf("token %v is of the grant from before the suspend", l.Token())
				}
				if !l.Valid() {
					t.Error("the lease is not valid")
				}
				unlock(t, l)
			})
		})
	}
}

// A grant has 256 tokens. The lock is then given back and acquired again, also by a try.
func TestLinger11TokensAreUsedUp(t *testing.T) {
	for _, try := range []bool{false, true} {
		t.Run(fmt.Sprint("try ", try), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st := tap(newStore())
				c := newClient(t, st, nil)
				var last fencelock.Token
				for i := range 600 {
					acquire := c.Mutex("x", linger).Lock
					if try {
						acquire = c.Mutex("x", linger).TryLock
					}
					l, err := acquire(ctxb)
					if err != nil {
						t.Fatalf("lock %d: %v", i, err)
					}
					if l.Token() <= last {
						t.Fatalf("lock %d has token %v after %v", i, l.Token(), last)
					}
					last = l.Token()
					unlock(t, l)
				}
				if n := len(st.Sent(faultstore.Withdraw)); n != 2 {
					t.Errorf("%d withdrawals for 600 locks; want 2", n)
				}
			})
		})
	}
}

// The holder record is that of the lease: another record is not taken without the store.
func TestLinger12HolderRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newClient(t, store, nil)
		unlock(t, lock(t, c, "x", linger, fencelock.Reason("first")))
		l := lock(t, c, "x", linger, fencelock.Reason("second"))
		st := status(t, store, "x")
		if len(st.Holders) != 1 || st.Holders[0].Record.Reason != "second" || st.Holders[0].Linger != lingering {
			t.Errorf("holders %+v; want one with the second reason that may linger", st.Holders)
		}
		unlock(t, l)
	})
}

// A store that cannot keep the bounds refuses it.
func TestLinger13StoresWithoutIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var nodes []quorum.Node
		for i := range 3 {
			nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Store: newStore()})
		}
		q, err := quorum.New(nodes, nil)
		must.OK(t, err)
		defer q.Close()
		for _, store := range []driver.Store{q, memstore.New(&memstore.Options{NoPush: true}), memstore.New(&memstore.Options{NoQueue: true})} {
			_, err := newClient(t, store, nil).Mutex("x", linger).Lock(ctxb)
			wantIs(t, store.Caps().Engine, err, fencelock.ErrUnsupported)
		}
	})
}
