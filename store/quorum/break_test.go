// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestLateNewsOfABreakIsOld: a node's answer that reports a broken claim arrives after the
// claim was withdrawn, and after a later answer of the same node. The withdrawal already
// reported the break to the core. A second report would break the claim that has the
// number by then.
//
//	c  ──keep-alive 1──▶ "1 is broken" ─────────────────────────────────▶ (late)
//	         withdraw 1 ──▶ found broken
//	c             ──keep-alive 2──▶ nothing broken           the answer of 1 ┘
//	a, b          ──keep-alive 2────────────────────────────────────────────▶ enough
func TestLateNewsOfABreakIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		second := faultstore.On(faultstore.KeepAlive, faultstore.Nth(2, faultstore.Delay(0, 60*time.Millisecond)))
		s := r.store(map[int]faultstore.Fault{
			0: second, 1: second,
			2: faultstore.On(faultstore.KeepAlive, faultstore.Nth(1, faultstore.Delay(0, 30*time.Millisecond))),
		})
		defer s.Close()
		ctx := t.Context()
		ses, _, err := s.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		got, err := ses.Attempt(ctx, &driver.Claim{Name: "a", Seq: 1, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		if err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := s.Break(ctx, "a", got.Token); err != nil {
			t.Fatal(err)
		}
		renewal, err := ses.KeepAlive(ctx)
		if err != nil || len(renewal.Broken) != 1 {
			t.Fatalf("the first keep-alive reported %+v, %v", renewal, err)
		}
		if found, err := ses.Withdraw(ctx, driver.Withdrawal{Name: "a", Seq: 1}); err != nil || found != driver.WasBroken {
			t.Fatalf("the withdrawal found %v, %v", found, err)
		}
		if renewal, err = ses.KeepAlive(ctx); err != nil || len(renewal.Broken) != 0 {
			t.Errorf("the second keep-alive reported %+v, %v", renewal, err)
		}
		if err := ses.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestTheProbeOfABreakLeaves: the lock is free on b, so the probe that raises the counter
// there is granted, and the reply is lost. The probe's grant must not stay behind.
func TestTheProbeOfABreakLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		held := r.lock("holder", r.process(map[int]faultstore.Fault{1: away(0, time.Hour)}, nil), "x")
		s := r.store(map[int]faultstore.Fault{1: faultstore.On(faultstore.Attempt, faultstore.LoseReply())})
		fence, err := s.Break(t.Context(), "x", held.Token())
		r.log("broken with fence %v, %v: %s", fence, err, r.holders("x"))
		must.OK(t, err)
		time.Sleep(time.Second)
		_ = s.Close()
		if n := r.taken("x"); n != 0 {
			t.Errorf("a second after the break x is on %d nodes: %s", n, r.holders("x"))
		}
	})
}

// TestBrokenClaimIsFoundBrokenByEveryWithdrawal: a claim that waited came and went on each node, so that it has another number there
// than it began with. It is granted, broken and withdrawn, and then forgotten. The second withdrawal asks the nodes for the first
// number, which none of them knows, and finds the claim broken all the same (I4).
func TestBrokenClaimIsFoundBrokenByEveryWithdrawal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, &memstore.Options{NoPush: true, NoQueue: true})
		s := r.store(nil)
		defer s.Close()
		ses := opened(t, s, "x")
		waiting := claim(1)
		waiting.Queue = true
		for free := range r.stores { // all others are taken
			var others []driver.Session
			for i, store := range r.stores {
				if i == free {
					continue
				}
				other := opened(t, store, "x")
				_, err := other.Attempt(t.Context(), claim(1))
				must.OK(t, err)
				others = append(others, other)
			}
			if got, err := ses.Attempt(t.Context(), waiting); err != nil || got.State != driver.Busy {
				t.Fatalf("got %+v, %v, want busy", got, err)
			}
			time.Sleep(time.Millisecond)
			for _, other := range others {
				must.OK(t, other.Close(t.Context()))
			}
		}
		got, err := ses.Attempt(t.Context(), waiting)
		if err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v, want it granted", got, err)
		}
		time.Sleep(time.Millisecond)
		_, err = s.Break(t.Context(), "x", got.Token)
		must.OK(t, err)
		for i := range 3 {
			if found, err := ses.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil || found != driver.WasBroken {
				t.Errorf("withdrawal %d found %v, %v, want broken", i+1, found, err)
			}
			time.Sleep(time.Millisecond)
		}
		must.OK(t, ses.Close(t.Context()))
	})
}
