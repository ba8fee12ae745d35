// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"slices"
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

// TestBreakThatANodeReportsLateIsHeard: an operator breaks a lease on one node, which answers keep-alives a little later than the
// others. The lease does not count from then on, so its holder must be notified, although each keep-alive is over before that answer.
func TestBreakThatANodeReportsLateIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		slow := faultstore.On(faultstore.KeepAlive, faultstore.Delay(0, time.Millisecond))
		held := r.lock("holder", r.process(map[int]faultstore.Fault{0: slow}, nil), "x")
		time.Sleep(time.Second)
		_, err := r.stores[0].Break(t.Context(), "x", held.Token())
		must.OK(t, err)
		time.Sleep(15 * time.Second)
		if held.Valid() {
			t.Error("the holder was not notified within three keep-alives of the break")
		}
	})
}

// TestBrokenVoteIsNoBreakOfItsClaim: a claim waits and has the vote of one node, where an operator breaks it. Nothing was
// held: the vote is given back, and the claim goes on to wait. Later it is granted, and broken. That is reported.
func TestBrokenVoteIsNoBreakOfItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, &memstore.Options{NoPush: true, NoQueue: true})
		s := r.store(map[int]faultstore.Fault{0: faultstore.On(faultstore.Withdraw, faultstore.Delay(50*time.Millisecond, 0))})
		defer s.Close()
		others := r.foreign() // on b and c
		ses := opened(t, s, "x")
		waiting := claim(1)
		waiting.Queue = true
		if got, err := ses.Attempt(t.Context(), waiting); err != nil || got.State != driver.Busy {
			t.Fatalf("got %+v, %v, want busy", got, err)
		}
		st, err := r.stores[0].Inspect(t.Context(), "x")
		if err != nil || len(st.Holders) != 1 {
			t.Fatalf("a shows %v, %v, want the vote", st.Holders, err)
		}
		_, err = r.stores[0].Break(t.Context(), "x", st.Holders[0].Token)
		must.OK(t, err)
		renewal, err := ses.KeepAlive(t.Context())
		if err != nil || len(renewal.Broken) != 0 {
			t.Errorf("the keep-alive reported %+v, %v, want no break of a claim that was not granted", renewal, err)
		}
		time.Sleep(time.Second)
		for _, o := range others {
			must.OK(t, o.Close(t.Context()))
		}
		got, err := ses.Attempt(t.Context(), waiting)
		if err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v, want it granted", got, err)
		}
		time.Sleep(time.Second)
		_, err = s.Break(t.Context(), "x", got.Token)
		must.OK(t, err)
		if renewal, err = ses.KeepAlive(t.Context()); err != nil || !slices.Equal(renewal.Broken, []uint64{1}) {
			t.Errorf("the keep-alive reported %+v, %v, want claim 1 broken", renewal, err)
		}
		must.OK(t, ses.Close(t.Context()))
	})
}

// TestLateNewsOfABrokenVoteIsOld: the answer in which a node reports the broken vote arrives when the vote was given back and the claim is
// granted.
func TestLateNewsOfABrokenVoteIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, &memstore.Options{NoPush: true, NoQueue: true})
		s := r.store(map[int]faultstore.Fault{0: faultstore.Any(
			faultstore.On(faultstore.Withdraw, faultstore.Delay(50*time.Millisecond, 0)),
			faultstore.On(faultstore.KeepAlive, faultstore.Nth(1, faultstore.Delay(0, 150*time.Millisecond))),
		)})
		defer s.Close()
		others := r.foreign() // on b and c
		ses := opened(t, s, "x")
		waiting := claim(1)
		waiting.Queue = true
		if got, err := ses.Attempt(t.Context(), waiting); err != nil || got.State != driver.Busy {
			t.Fatalf("got %+v, %v, want busy", got, err)
		}
		st, err := r.stores[0].Inspect(t.Context(), "x")
		must.OK(t, err)
		_, err = r.stores[0].Break(t.Context(), "x", st.Holders[0].Token)
		must.OK(t, err)
		_, err = ses.KeepAlive(t.Context()) // over before a answers
		must.OK(t, err)
		time.Sleep(60 * time.Millisecond) // the vote has been given back
		for _, o := range others {
			must.OK(t, o.Close(t.Context()))
		}
		if got, err := ses.Attempt(t.Context(), waiting); err != nil || got.State != driver.Granted {
			t.Fatalf("got %+v, %v, want it granted", got, err)
		}
		time.Sleep(time.Second) // a has answered
		if renewal, err := ses.KeepAlive(t.Context()); err != nil || len(renewal.Broken) != 0 {
			t.Errorf("the keep-alive reported %+v, %v, want nothing broken", renewal, err)
		}
		must.OK(t, ses.Close(t.Context()))
	})
}
