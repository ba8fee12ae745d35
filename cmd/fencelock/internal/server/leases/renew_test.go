// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// waits is a renewal that waits in the background until there is news.
func (w *world) waits(at int, h Handle, a Answer) <-chan Answer {
	w.Helper()
	got := make(chan Answer, 1)
	go func() {
		all, err := w.servers[at].Renew(w.Context(), calls(h), []Named{named(a)}, ttl/2)
		if err != nil {
			w.Errorf("renewed at %d: %v", at, err)
			all = []Answer{{}}
		}
		got <- all[0]
	}()
	synctest.Wait()
	return got
}

// lease returns what a server has of a lease, nil if nothing.
func (w *world) lease(at int, h Handle, id string) *lease {
	b := w.servers[at]
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[h.key("ann")].leases[id]
}

// TestRenewalReportsNoOtherGrant: a server that was granted the lock again, after the grant of the client was broken, does not let the
// client go on with a token that the client has not asked for.
func TestRenewalReportsNoOtherGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		n := named(w.acquire(0, h, "1", "x"))
		n.Token-- // the grant of the client, which ended while this server waited
		got, news, _ := w.servers[0].report(calls(h), []Named{n}, 0)
		if !news || got[0].State != Lost || got[0].Token != 0 || got[0].TrustedMS != 0 {
			w.Errorf("%+v, news: %v", got, news)
		}
		w.free("x")
	})
}

// TestRenewalOfABrokenLeaseAtAServerThatStillWaits: the lease is lost, not waited for.
func TestRenewalOfABrokenLeaseAtAServerThatStillWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		h, a := w.stillWaits()
		if _, err := w.store.Break(w.Context(), "x", a.Token); err != nil {
			w.Fatal(err)
		}
		w.atOnce(func() {
			if got, err := w.servers[0].Renew(w.Context(), calls(h), []Named{named(a)}, ttl/2); err != nil || got[0].State != Lost {
				w.Errorf("%+v, %v", got, err)
			}
		})
		time.Sleep(2 * ttl)
		w.free("x")
	})
}

// TestLossDuringTheWaitIsCheckedInTheStore: a server that loses its claim while a renewal waits joins the grant again, if the store has it.
func TestLossDuringTheWaitIsCheckedInTheStore(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		w.renewed(1, h, a)
		w.atOnce(func() {
			got := w.waits(0, h, a)
			w.lease(0, h, "1").lost()
			if b := <-got; b.State != Held || b.Token != a.Token || !b.Moved {
				w.Errorf("%+v, want the lease %+v", b, a)
			}
		})
	})
}

// TestBreakDuringTheWaitIsReported: a lease that the store no longer has is lost, and the wait ends.
func TestBreakDuringTheWaitIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		got := w.waits(0, h, a)
		if _, err := w.store.Break(w.Context(), "x", a.Token); err != nil {
			w.Fatal(err)
		}
		b := <-got
		for ; b.State == Held; b = <-w.waits(0, h, a) { // until the server renews its session in the store
		}
		if b.State != Lost || b.TrustedMS != 0 {
			w.Errorf("%+v", b)
		}
		w.free("x")
	})
}

// TestElsewhereIsReportedAtOnce: the client needs what is left of its trusted time to move.
func TestElsewhereIsReportedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		w.links[0].down.Store(true)
		for !w.renewed(0, h, a).Elsewhere {
			time.Sleep(ttl / 5)
		}
		w.atOnce(func() {
			if got := <-w.waits(0, h, a); !got.Elsewhere {
				w.Errorf("%+v", got)
			}
		})
	})
}

// full acquires as many leases as a session has.
func (w *world) full(at int, h Handle) (ids []string) {
	w.Helper()
	for i := range MaxLeases {
		id := fmt.Sprint("full", i)
		w.acquire(at, h, id, id)
		ids = append(ids, id)
	}
	if _, err := w.servers[at].Acquire(w.Context(), calls(h), &Request{ID: "more", Lock: "more"}); !errors.Is(err, ErrTooManyLeases) {
		w.Fatalf("one more: %v", err)
	}
	return ids
}

// TestLostLeasesDoNotCount: a client that lost all its leases acquires as many again, and naming lost ones does not keep them.
func TestLostLeasesDoNotCount(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		for _, id := range w.full(0, h) {
			w.lease(0, h, id).lost()
		}
		a := w.acquire(0, h, "1", "x")
		time.Sleep(ttl * 6 / 10)
		w.renewed(0, h, a)
		if got, err := w.servers[0].Acquire(w.Context(), calls(h), &Request{ID: "full0", Lock: "full0"}); err != nil || got.State != Lost {
			w.Errorf("%+v, %v", got, err)
		}
		time.Sleep(ttl * 6 / 10)
		if w.lease(0, h, "full0") != nil {
			w.Error("a lost lease is kept for longer than its TTL")
		}
		w.renewed(0, h, a)
	})
}

// TestManyLostLeasesAreDropped: what a session keeps of them is limited, and held ones stay.
func TestManyLostLeasesAreDropped(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		for i := range 2 * maxJoined {
			id := fmt.Sprint("lost", i)
			w.acquire(0, h, id, id)
			w.lease(0, h, id).lost()
		}
		if n := len(w.servers[0].sessions[h.key("ann")].leases); n > maxJoined {
			w.Errorf("%d leases are kept", n)
		}
		w.renewed(0, h, a)
	})
}

// TestRenewalJoinsMoreThanASessionAcquires: a client that acquired at two servers, and goes on at one, loses no lease by the limit.
func TestRenewalJoinsMoreThanASessionAcquires(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(1, h, "1", "x")
		w.full(0, h)
		w.renewed(0, h, a)
	})
}
