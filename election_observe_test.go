// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/memstore"
)

func TestElectionObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(kindContext(t))
		store := memstore.New(nil)
		var diary, seen kindDiary
		// The store does not answer for ten seconds, and forgets nothing.
		watcher := kindClient(t, kindFaulty(t, store, `on(inspect, during(1m, 70s, refuse))`), nil).Election("leader")
		observing := kindGo(kindErr(func() error {
			last := fencelock.Token(0)
			for h, err := range watcher.Observe(ctx) {
				switch {
				case err != nil:
					seen.add("error")
					kindIs(t, err, fencelock.ErrUnavailable)
				case h == nil:
					seen.add("nobody")
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
		seen.want(t, "nobody")
		run := func(who string) (*fencelock.Election, func()) {
			c, cancel := context.WithCancel(ctx)
			e := kindClient(t, store, kindOwner(who)).Election("leader", fencelock.Reason("leads"))
			call := kindGo(kindErr(func() error { return e.Run(c, diary.lead(who)) }))
			return e, func() { cancel(); _, _ = call.wait() }
		}
		a, stopA := run("a")
		time.Sleep(5 * time.Second)
		seen.want(t, "a")
		_, stopB := run("b")
		time.Sleep(5 * time.Second)
		seen.want(t)
		if err := a.Resign(ctx); err != nil {
			t.Fatal(err)
		}
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
		seen.want(t, "nobody")
		if h, err := watcher.Leader(ctx); h != nil || err != nil {
			t.Errorf("leader %v, %v; want nobody", h, err)
		}
		stop()
		observing.now(t, "its context has ended")
	})
}

func TestElectionObserveCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := kindClient(t, memstore.New(nil), nil).Election("leader")
		for h, err := range e.Observe(kindContext(t)) {
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
				ctx, stop := context.WithCancel(kindContext(t))
				var diary kindDiary
				e := kindClient(t, kindFaulty(t, memstore.New(nil), "during(0s, 5m, "+fault+")"), nil).Election("leader")
				run := kindGo(kindErr(func() error { return e.Run(ctx, diary.lead("a")) }))
				time.Sleep(5 * time.Minute)
				run.waits(t, "the store is unavailable")
				diary.want(t)
				time.Sleep(fencelock.DefaultTTL)
				diary.want(t, "a leads")
				stop()
				_, err := run.wait()
				kindIs(t, err, context.Canceled)
			})
		})
	}
}

func TestElectionCandidateThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		held := kindGot(t)(kindClient(t, store, nil).Mutex("leader").Lock(kindContext(t)))
		ctx, cancel := context.WithTimeout(kindContext(t), time.Minute)
		defer cancel()
		var diary kindDiary
		err := kindClient(t, store, nil).Election("leader").Run(ctx, diary.lead("a"))
		kindIs(t, err, context.DeadlineExceeded)
		diary.want(t)
		synctest.Wait()
		if st := kindStatus(t, store, "leader"); st.Waiting != 0 {
			t.Errorf("%d claims were left in line", st.Waiting)
		}
		kindUnlock(t, held)
	})
}
