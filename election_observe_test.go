// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestElectionObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(locktest.Context(t))
		store := memstore.New(nil)
		var diary, seen diary
		// The store refuses Inspect for ten seconds and loses no data.
		watcher := locktest.Client(t, locktest.Faulty(t, store, `on(inspect, during(1m, 70s, refuse))`), nil).Election("leader")
		observing := locktest.Go(locktest.Err(func() error {
			last := fencelock.Token(0)
			for h, err := range watcher.Observe(ctx) {
				switch {
				case err != nil:
					seen.add("error")
					locktest.Is(t, err, fencelock.ErrUnavailable)
				case h == nil:
					seen.add("no leader")
				default:
					if h.Token <= last {
						t.Errorf("term %v after %v", h.Token, last)
					}
					last = h.Token
					seen.add("%s", h.Record.Owner)
				}
			}
			return nil
		}))
		seen.want(t, "no leader")
		run := func(who string) (*fencelock.Election, func()) {
			c, cancel := context.WithCancel(ctx)
			e := locktest.Client(t, store, locktest.Owner(who)).Election("leader", fencelock.Reason("leads"))
			call := locktest.Go(locktest.Err(func() error { return e.Run(c, diary.lead(who)) }))
			return e, func() { cancel(); _, _ = call.Wait() }
		}
		a, stopA := run("a")
		time.Sleep(5 * time.Second)
		seen.want(t, "a")
		_, stopB := run("b")
		time.Sleep(5 * time.Second)
		seen.want(t)
		must.OK(t, a.Resign(ctx))
		time.Sleep(5 * time.Second)
		seen.want(t, "b")
		if h, err := watcher.Leader(ctx); err != nil || h == nil || h.Record.Owner != "b" || h.Record.Reason != "leads" {
			t.Errorf("leader %+v, %v; want b", h, err)
		}
		time.Sleep(2 * time.Minute)
		seen.want(t, "error")
		stopA()
		stopB()
		time.Sleep(5 * time.Second)
		seen.want(t, "no leader")
		if h, err := watcher.Leader(ctx); h != nil || err != nil {
			t.Errorf("leader %v, %v; want no leader", h, err)
		}
		stop()
		observing.Now(t, "its context has ended")
	})
}

// withoutTokens is a store that has none, as memcached.
type withoutTokens struct{ driver.Store }

// Inspect implements driver.Store.
func (s withoutTokens) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, err := s.Store.Inspect(ctx, name)
	for i := range st.Holders {
		st.Holders[i].Token = 0
	}
	return st, err
}

func TestElectionObserveWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := locktest.Context(t)
		store := withoutTokens{memstore.New(nil)}
		var seen diary
		watching, stop := context.WithCancel(ctx)
		observing := locktest.Go(locktest.Err(func() error {
			for h, err := range locktest.Client(t, store, nil).Election("leader").Observe(watching) {
				switch {
				case err != nil:
					t.Error(err)
				case h == nil:
					seen.add("no leader")
				default:
					seen.add("%s", h.Record.Owner)
				}
			}
			return nil
		}))
		a, b := locktest.Client(t, store, locktest.Owner("a")), locktest.Client(t, store, locktest.Owner("b"))
		seen.want(t, "no leader")
		first := locktest.Got(t)(a.Mutex("leader").Lock(ctx))
		time.Sleep(5 * time.Second)
		seen.want(t, "a")
		locktest.Unlock(t, first)
		second := locktest.Got(t)(b.Mutex("leader").Lock(ctx))
		time.Sleep(5 * time.Second)
		seen.want(t, "b")
		locktest.Unlock(t, second)
		time.Sleep(5 * time.Second)
		seen.want(t, "no leader")
		stop()
		observing.Now(t, "its context has ended")
	})
}

func TestElectionObserveCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := locktest.Client(t, memstore.New(nil), nil).Election("leader")
		for h, err := range e.Observe(locktest.Context(t)) {
			if h != nil || err != nil {
				t.Errorf("got %v, %v", h, err)
			}
			break
		}
	})
}

func TestElectionWhileTheStoreIsUnavailable(t *testing.T) {
	for _, fault := range []string{"refuse", "lose(request)"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(locktest.Context(t))
				var diary diary
				e := locktest.Client(t, locktest.Faulty(t, memstore.New(nil), "during(0s, 5m, "+fault+")"), nil).Election("leader")
				run := locktest.Go(locktest.Err(func() error { return e.Run(ctx, diary.lead("a")) }))
				time.Sleep(5 * time.Minute)
				run.Waits(t, "the store is unavailable")
				diary.want(t)
				time.Sleep(fencelock.DefaultTTL)
				diary.want(t, "a leads")
				stop()
				_, err := run.Wait()
				locktest.Is(t, err, context.Canceled)
			})
		})
	}
}

func TestElectionCandidateThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		held := locktest.Got(t)(locktest.Client(t, store, nil).Mutex("leader").Lock(locktest.Context(t)))
		ctx, cancel := context.WithTimeout(locktest.Context(t), time.Minute)
		defer cancel()
		var diary diary
		err := locktest.Client(t, store, nil).Election("leader").Run(ctx, diary.lead("a"))
		locktest.Is(t, err, context.DeadlineExceeded)
		diary.want(t)
		synctest.Wait()
		if st := locktest.Status(t, store, "leader"); st.Waiting != 0 {
			t.Errorf("%d claims were left in line", st.Waiting)
		}
		locktest.Unlock(t, held)
	})
}

// A replica that lags behind may show an older leader after a moment without one.
func TestObservedTermsDoNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctxb := locktest.Context(t)
		store := memstore.New(nil)
		// The first leader is gone, so that no process takes its stale grant away.
		gone, _, err := store.Open(ctxb, driver.OpenRequest{Shard: store.Shard("e"), ID: driver.NewSessionID(), TTL: time.Minute})
		must.OK(t, err)
		claim := driver.Claim{Seq: 1, Name: "e", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "a"}}}
		if _, err := gone.Attempt(ctxb, &claim); err != nil {
			t.Fatal(err)
		}
		lagging := store.Snapshot()
		must.OK(t, gone.Close(ctxb))
		second := locktest.Got(t)(locktest.Client(t, store, locktest.Owner("b")).Mutex("e").Lock(ctxb))
		ctx, cancel := context.WithTimeout(ctxb, time.Minute)
		defer cancel()
		go func() {
			time.Sleep(10 * time.Second)
			_ = second.Unlock(ctxb)
			time.Sleep(3 * time.Second)
			store.Restore(lagging)
		}()
		last, none := fencelock.Token(0), 0
		for h, err := range locktest.Client(t, store, nil).Election("e").Observe(ctx) {
			switch {
			case err != nil:
				t.Error(err)
			case h == nil:
				none++
			case h.Token <= last:
				t.Errorf("term %v after term %v", h.Token, last)
			default:
				last = h.Token
			}
		}
		if last != second.Token() || none == 0 {
			t.Errorf("saw term %v last and no leader %d times; want %v and some", last, none, second.Token())
		}
	})
}

// TestElectionTerm: Term is the lease of the leader, and nil for a candidate, for a leader
// whose lease is no longer trusted although lead has not returned, and after Run.
func TestElectionTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		ctx, stop := context.WithCancel(locktest.Context(t))
		a := locktest.Client(t, locktest.Faulty(t, store, `on(keepalive, nth(3, cut(1m)))`), nil).Election("leader")
		b := locktest.Client(t, store, nil).Election("leader")
		if a.Term() != nil {
			t.Error("a leads before Run")
		}
		var terms []*fencelock.Lease
		deaf := make(chan struct{}) // lead of a does not notice that it has lost
		runA := locktest.Go(locktest.Err(func() error {
			return a.Run(ctx, func(_ context.Context, term *fencelock.Lease) error {
				terms = append(terms, term)
				<-deaf
				return nil
			})
		}))
		synctest.Wait()
		runB := locktest.Go(locktest.Err(func() error {
			return b.Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
				<-ctx.Done()
				return nil
			})
		}))
		synctest.Wait()
		if a.Term() != terms[0] || b.Term() != nil {
			t.Errorf("a leads: terms %v and %v", a.Term(), b.Term())
		}
		for b.Term() == nil {
			time.Sleep(10 * time.Millisecond)
			if a.Term() != nil && b.Term() != nil {
				t.Fatal("two terms at once")
			}
		}
		if a.Term() != nil {
			t.Error("a lost its lease and has a term")
		}
		close(deaf)
		stop()
		runA.Wait()
		runB.Wait()
		if a.Term() != nil || b.Term() != nil {
			t.Error("a term after Run has returned")
		}
	})
}
