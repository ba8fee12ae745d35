// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
)

// TestLeaseEndsWithTheTTLOfItsClient: unless the client names it, and at each server alone.
func TestLeaseEndsWithTheTTLOfItsClient(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		time.Sleep(ttl * 9 / 10)
		w.renewed(0, h, a)
		time.Sleep(ttl * 9 / 10)
		w.renewed(1, h, a)
		time.Sleep(ttl * 9 / 10)
		w.renewed(1, h, a)
		if n := w.holders("x"); n != 1 {
			w.Errorf("%d servers hold the lease, want the second one", n)
		}
		time.Sleep(ttl * 11 / 10)
		w.free("x")
	})
}

// TestLeaseThatTheStoreLostIsNotContinued: even if the lock is free, and nothing is left of the attempt.
func TestLeaseThatTheStoreLostIsNotContinued(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		if _, err := w.store.Break(w.Context(), "x", a.Token); err != nil {
			w.Fatal(err)
		}
		if got, err := w.renew(1, h, a); err != nil || got.State != Lost || got.TrustedMS != 0 {
			w.Errorf("%+v, %v", got, err)
		}
		if n := w.servers[1].Sessions(); n != 0 {
			w.Errorf("the server has %d sessions, and held the later grant for a moment", n)
		}
		w.free("x")
	})
}

// TestMoveIsReportedAtOnce: a renewal that joins a lease does not wait before it reports the move. A client that releases in
// between at the first server would leave the claim of the second.
func TestMoveIsReportedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		n := named(w.acquire(0, h, "1", "x"))
		w.atOnce(func() {
			if got, err := w.servers[1].Renew(w.Context(), calls(h), []Named{n}, ttl/2); err != nil || got[0].State != Held || !got[0].Moved {
				w.Errorf("%+v, %v", got, err)
			}
		})
		began := time.Now()
		if _, err := w.servers[1].Renew(w.Context(), calls(h), []Named{n}, ttl/2); err != nil || time.Since(began) != ttl/2 {
			w.Errorf("the next renewal took %v, %v; a client that does not send it back must not spin", time.Since(began), err)
		}
	})
}

// TestAcquisitionOfAMovedLeaseDoesNotWait: it is held, whatever the call would wait.
func TestAcquisitionOfAMovedLeaseDoesNotWait(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		w.renewed(1, h, a)
		if got := w.acquire(1, h, "1", "x"); got.Token != a.Token || !got.Moved {
			w.Errorf("%+v, want the lease %+v", got, a)
		}
	})
}

// TestOldestRenewalReturnsWhenThereAreMore: few renewals of a session wait at once, because each change wakes all.
func TestOldestRenewalReturnsWhenThereAreMore(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		n := named(w.acquire(0, h, "1", "x"))
		began := time.Now()
		took := make([]time.Duration, maxPolls+1)
		for i := range took {
			go func() {
				_, _ = w.servers[0].Renew(w.Context(), calls(h), []Named{n}, ttl/2)
				took[i] = time.Since(began)
			}()
			synctest.Wait()
		}
		time.Sleep(ttl)
		synctest.Wait() // a sleep alone is no order for the race detector
		for i, d := range took {
			if (d == 0) != (i == 0) {
				w.Errorf("the renewals took %v, want the first to return", took)
				break
			}
		}
	})
}

// TestIDOfAnotherLockDoesNotReplaceALease: an id that a client uses for two locks at two servers does not make a server
// drop a lease that it goes on holding, as long as it runs.
func TestIDOfAnotherLockDoesNotReplaceALease(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		w.acquire(0, h, "1", "x")
		y := w.acquire(1, h, "1", "y")
		if _, err := w.renew(0, h, y); !errors.Is(err, ErrOtherLock) {
			w.Errorf("the renewal of another lock: %v", err)
		}
		time.Sleep(2 * ttl)
		w.free("x", "y")
	})
}

// TestRenewalIsOfTheGrantThatTheClientNames: a server that has an older grant of the same id, which was broken, does not renew
// that one.
func TestRenewalIsOfTheGrantThatTheClientNames(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		old := w.acquire(0, h, "1", "x") // its answer is lost
		if _, err := w.store.Break(w.Context(), "x", old.Token); err != nil {
			w.Fatal(err)
		}
		a := w.acquire(1, h, "1", "x")
		if w.renewed(0, h, a); a.Token == old.Token {
			w.Errorf("one token for two grants: %v", a.Token)
		}
		w.release(0, h, a)
	})
}

// stillWaits lets a client wait at a server that hears nothing of the store, and get the lock at the other one.
func (w *world) stillWaits() (Handle, Answer) {
	w.links[0].deaf.Store(true)
	other, h := w.client(), w.client()
	first := w.acquire(1, other, "1", "x")
	a, err := w.servers[0].Acquire(w.Context(), calls(h), &Request{ID: "1", Lock: "x", Wait: time.Millisecond})
	if err != nil || a.State != Waiting {
		w.Fatalf("%+v, %v", a, err)
	}
	synctest.Wait()
	w.release(1, other, first)
	return h, w.acquire(1, h, "1", "x")
}

// TestRenewalAtAServerThatStillWaits: a lease that was granted through another server in the meantime is held, not waited for.
func TestRenewalAtAServerThatStillWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		h, a := w.stillWaits()
		w.renewed(0, h, a)
		a.Moved = true
		w.release(0, h, a)
		w.free("x")
	})
}

// TestReleaseAtAServerThatStillWaits: it ends the grant of the other server, too.
func TestReleaseAtAServerThatStillWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		h, a := w.stillWaits()
		w.release(0, h, a)
		w.free("x")
	})
}

// TestReleaseAtAServerThatLostTheLease: the server was cut off from the store, and the client went on at another one. The
// lease was never lost, and its release frees the lock.
func TestReleaseAtAServerThatLostTheLease(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		w.links[0].down.Store(true)
		for l := w.lease(0, h, "1"); l.held.Valid(); time.Sleep(ttl / 10) { // until it loses its session, and knows of the lease still
			w.renewed(1, h, a)
			_, _ = w.renew(0, h, a)
		}
		w.renewed(1, h, a)
		w.links[0].down.Store(false)
		w.release(0, h, a)
		w.free("x")
	})
}

// TestReleaseOfALostLeaseIsLost: at the server that notified its client of the loss.
func TestReleaseOfALostLeaseIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		if _, err := w.store.Break(w.Context(), "x", a.Token); err != nil {
			w.Fatal(err)
		}
		n := named(a)
		if got, err := w.servers[0].Release(w.Context(), calls(h), &n); err != nil || got.State != Lost || got.Why == "" {
			w.Errorf("%+v, %v", got, err)
		}
	})
}

// TestReleaseAfterAPauseIsLost: a client that was paused for longer than its TTL releases its lease. Another one may have held the lock since, so it
// learns that its work was not protected. The same release again, by a client that was not paused, changes nothing.
func TestReleaseAfterAPauseIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		time.Sleep(2 * ttl)
		w.free("x")
		n := named(a)
		if got, err := w.servers[0].Release(w.Context(), calls(h), &n); err != nil || got.State != Lost || got.Why == "" {
			w.Errorf("%+v, %v", got, err)
		}
		time.Sleep(5 * ttl)
		w.servers[0].mu.Lock()
		defer w.servers[0].mu.Unlock()
		if len(w.servers[0].sessions) != 0 {
			w.Error("the session stays")
		}
	})
}

// TestReleaseOfAnEarlierGrantIsLost: a later grant of the same id is given back, and does not make it look as if the lease had lasted.
func TestReleaseOfAnEarlierGrantIsLost(t *testing.T) {
	for name, at := range map[string]int{"granted at another server": 1, "granted here": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				h := w.client()
				old := w.acquire(1-at, h, "1", "x")
				if _, err := w.store.Break(w.Context(), "x", old.Token); err != nil {
					w.Fatal(err)
				}
				w.acquire(at, h, "1", "x")
				n := named(old)
				if got, err := w.servers[0].Release(w.Context(), calls(h), &n); err != nil || got.State != Lost || got.Why == "" {
					w.Errorf("%+v, %v", got, err)
				}
				w.free("x")
			})
		})
	}
}

// TestEndAtAFullServer: leases that the client names are released even if the server has no room for another session.
func TestEndAtAFullServer(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		w.servers[1].users["ann"] = MaxUserSessions
		if got, err := w.servers[1].End(w.Context(), calls(h), []Named{named(a)}); err != nil || len(got) != 1 || got[0].State != Released {
			w.Errorf("%+v, %v", got, err)
		}
		w.free("x")
	})
}

// TestReleaseThatLeavesAClaimIsAnError: the client repeats it.
func TestReleaseThatLeavesAClaimIsAnError(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.renewed(1, h, w.acquire(0, h, "1", "x"))
		w.links[1].down.Store(true)
		n := named(a)
		if got, err := w.servers[1].Release(w.Context(), calls(h), &n); !errors.Is(err, fencelock.ErrUnavailable) {
			w.Errorf("%+v, %v; the claim of the first server is left", got, err)
		}
		w.links[1].down.Store(false)
		w.release(1, h, a)
		time.Sleep(time.Second)
		w.free("x")
	})
}

// TestServerThatIsCutOffSendsClientsElsewhere: while they can trust their leases for as long as they need to move, and never
// while its own renewals succeed.
func TestServerThatIsCutOffSendsClientsElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		a := w.acquire(0, h, "1", "x")
		for range 100 {
			if got := w.renewed(0, h, a); got.Elsewhere {
				w.Fatalf("%+v", got)
			}
			time.Sleep(ttl / 5)
		}
		w.links[0].down.Store(true)
		got := w.renewed(0, h, a)
		for ; !got.Elsewhere; got = w.renewed(0, h, a) {
			time.Sleep(ttl / 5)
		}
		if got.TrustedMS < ttl.Milliseconds()/2 {
			w.Errorf("%+v, want time to move", got)
		}
		if got = w.renewed(1, h, a); got.Elsewhere {
			w.Errorf("at the other server: %+v", got)
		}
	})
}

// TestLateAcquisitionAfterAReleaseIsNotMade: even if the server had nothing to release.
func TestLateAcquisitionAfterAReleaseIsNotMade(t *testing.T) {
	inWorld(t, func(w *world) {
		h := w.client()
		w.acquire(0, h, "1", "x")
		w.release(0, h, Answer{ID: "2", Lock: "y"})
		if a, err := w.servers[0].Acquire(w.Context(), calls(h), &Request{ID: "2", Lock: "y"}); err != nil || a.State != Released {
			w.Errorf("%+v, %v", a, err)
		}
	})
}
