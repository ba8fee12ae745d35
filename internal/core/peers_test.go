// SPDX-License-Identifier: Apache-2.0

package core_test

// Flaws of other lock libraries that were reproduced against real servers, and
// rules learnt from them: which test here shows that we do not have them.
//
//	rueidislock R1      holder not notified, black hole      TestHolderIsNotifiedAtTheDeadlineWhateverIsInFlight
//	rueidislock R2      one slow reply and it hangs          TestOneSlowReplyStrandsNoWaiter
//	rueidislock R3      giving up consumes a wake-up         TestWaiterThatGivesUpPassesTheLockOn
//	rueidislock R4      errors of the store are swallowed    TestDefiniteErrorEndsTheWait
//	rueidislock R5      the client's wall clock is the TTL   TestStoreClockMayBeAnyTime
//	rueidislock R6      releasing blocks for a TTL           TestUnlockIsBounded
//	rueidislock R7      no push: the waiter waits forever    TestLostPushCostsOnePoll
//	redsync S1          one slow call loses the lock         TestFailedRenewalIsTriedAgain
//	redsync S2          orphan when the context ends         TestGivingUpWithALostReplyLeavesNothingBehind
//	redsync S3          the store's client ignores contexts  TestHolderIsNotifiedAtTheDeadlineWhateverIsInFlight
//	redsync S4          a renewal revives a lost lock        TestLateRenewalDoesNotReviveALease
//	redsync S5          the context's error is hidden        TestContextErrorIsPreserved
//	redsync S5          valid after unlock                   TestNothingIsValidAfterUnlock
//	redsync S5          gives up before its context          TestWaitLastsAsLongAsItsContext
//	bsm B1              an id's prefix steals the lock       TestReentryByOwner
//	bsm B2              orphan when a reply is lost          TestGivingUpWithALostReplyLeavesNothingBehind
//	bsm B3              state in a shared handle             TestHandlesHaveNoState
//	bsm 27              context bounds the holding too       TestContextBoundsTheWaitingOnly
//	etcd E1             ghost waiter in a live session       TestGivingUpWithALostReplyLeavesNothingBehind
//	etcd E2             phantom leader after a lost session  TestCandidateWithoutItsSessionDoesNotLead
//	etcd E3             names collide by prefix              TestHierarchicalNamesAreDifferentLocks
//	etcd E4             one session holds a lock twice       TestNoReentryWithoutTheContext
//	etcd E5             a waiter outlives its session        TestWaiterSurvivesItsSession
//	etcd E6             a stale unlock frees a newer lease   TestStaleUnlockTouchesNoOtherHolder
//	pglock P1           a release is noticed a lease later   TestTurnsBetweenProcessesAreInOrder
//	pglock P2           renewal ends with the acquisition    TestContextBoundsTheWaitingOnly
//	pglock P3           notified after the lease has ended   TestHolderIsNotifiedBeforeAnotherHolds
//	pglock P4           one error ends the renewal           TestFailedRenewalIsTriedAgain
//	dynamolock D1       waiting holds up the renewal         TestWaitersDoNotHoldUpRenewals
//	dynamolock D1       Close waits for waiters              TestCloseNotifiesHoldersAndWaiters
//	dynamolock D2       a hung renewal hides the loss        TestHolderIsNotifiedAtTheDeadlineWhateverIsInFlight
//	dynamolock D3       a failed release is final            TestUnconfirmedUnlockIsRepeated
//	jefferyjob J2       re-entry into a lost lock            TestNoReentryIntoALostLease
//	jefferyjob J3       order within a second is lost        TestTurnsBetweenProcessesAreInOrder
//	jefferyjob J4       readers share one end                TestReadersEndOneByOne
//	goRedisson G1       renewal keeps a dead owner's lock    TestRenewalKeepsNoLeaseOfAnotherClient
//	lockgate L1         shared beside a writer after death   TestWriterAfterADeadReaderIsAlone
//	lockgate L2         unlock of a lost lease hangs         TestUnlockAfterALossReturnsAtOnce
//	gocron G1           unlock with the job's ended context  TestUnlockOnACanceledContext
//	gocron G2           a late replica runs the job again    TestMinHoldOutlivesTheUnlock
//	client-go           IsLeader of a lost lease             TestValidComparesTheClockAtTheCall
//	Redisson A1         renewed forever without a holder     TestIdleSessionIsLetGo
//	Redisson A16        options leak into the next lock      TestHandlesHaveNoState
//	Redisson B23        a short wait poisons the others      TestWaiterThatGivesUpPassesTheLockOn
//	Redisson C27        a repeated acquire counts twice      TestLostReplyIsAskedAgain
//	Redisson C29        a repeated unlock says not held      TestUnconfirmedUnlockIsRepeated
//	Redisson E43        no waiter wakes when a holder dies   TestHolderIsNotifiedBeforeAnotherHolds
//	Redisson G52        a key stays for every name           TestNothingIsKeptForAFreeLock
//	Curator H60         a grant of the session before        TestSuspendCountsAsTime
//	Curator H61         state is dropped before the release  TestUnconfirmedUnlockIsRepeated
//	rule 1              deadline from the send               TestDeadlineCountsFromTheSend
//	rule 2              renewals bounded and repeated        TestOneLostReplyOfARenewalLosesNothing
//	rule 3              clean-up on a separate context       TestGivingUpWithALostReplyLeavesNothingBehind
//	rule 4              durations, not instants              TestStoreClockMayBeAnyTime
//	rule 5              polling as well as the push          TestLostPushCostsOnePoll
//	rule 6              ownership checked after waiting      TestGrantThatCrossedALossIsAskedForAgain
//	rule 7              exact names and ids                  TestHierarchicalNamesAreDifferentLocks
//	rule 8              a lease is never used again          TestCauseNamesTheReason
//	rule 9              errors that answer a question        TestSilenceEndsTheWaitAfterPatience
//	rule 10             tokens without a key per name        TestNothingIsKeptForAFreeLock
//	rule 11             waiting and holding are two          TestContextBoundsTheWaitingOnly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestOneSlowReplyStrandsNoWaiter(t *testing.T) {
	for _, fault := range []string{`on(attempt, nth(1, delay(0s, 1h)))`, `on(open, nth(1, delay(0s, 1h)))`, `on(attempt, nth(1, delay(1m, 0s)))`} {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newStore()
				c := newClient(t, bent(t, m, fault), nil)
				first, second := start(ctxb, c.Mutex("x")), start(ctxb, c.Mutex("x"))
				unlock(t, first.wait(t, callTimeout+time.Second))
				unlock(t, second.wait(t, time.Second))
				time.Sleep(2 * time.Minute)
				wantClaims(t, m, "x", 0, 0)
			})
		})
	}
}

func TestStoreClockMayBeAnyTime(t *testing.T) {
	for _, off := range []time.Duration{-1e5 * time.Hour, 1e5 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(off) }})
				a, b := newClient(t, bent(t, m, `during(1m, 1h, lose(request))`), nil), newClient(t, m, nil)
				began := time.Now()
				l := lock(t, a, "x")
				wantNear(t, "deadline", l.Deadline(), began.Add(trust))
				w := start(ctxb, b.Mutex("x"))
				time.Sleep(time.Minute)
				if !l.Valid() || w.over() {
					t.Fatalf("lost while the store answers: %v", l.Err())
				}
				w.wait(t, 2*ttl)
				if l.Valid() {
					t.Error("two holders")
				}
			})
		})
	}
}

func TestUnlockIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `on(withdraw, lose(request))`), nil)
		l := lock(t, c, "x")
		held, began := l.Context(), time.Now()
		wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrUnavailable)
		if took := time.Since(began); took > callTimeout {
			t.Errorf("took %v; want at most %v", took, callTimeout)
		}
		if !isDone(held) {
			t.Error("the lease lives on")
		}
	})
}

func TestNothingIsValidAfterUnlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		l := lock(t, c, "x")
		unlock(t, l)
		if l.Valid() || l.Deadline().After(time.Now()) {
			t.Errorf("valid %v, deadline in %v", l.Valid(), time.Until(l.Deadline()))
		}
		wantIs(t, "Err", l.Err(), fencelock.ErrReleased)
	})
}

func TestWaitLastsAsLongAsItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		l := lock(t, newClient(t, m, nil), "x")
		c := newClient(t, m, nil)
		patient := start(ctxb, c.Mutex("x"))
		ctx, cancel := context.WithTimeout(ctxb, time.Hour)
		defer cancel()
		bounded, began := start(ctx, c.Mutex("x")), time.Now()
		time.Sleep(10 * time.Hour)
		if !bounded.over() || bounded.at.Sub(began) != time.Hour {
			t.Errorf("waited %v; want 1h", bounded.at.Sub(began))
		}
		wantIs(t, "Lock", bounded.err, context.DeadlineExceeded)
		if patient.over() {
			t.Fatalf("gave up: %v", patient.err)
		}
		unlock(t, l)
		unlock(t, patient.wait(t, 0))
	})
}

func TestHandlesHaveNoState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		mu, fixed := c.Mutex("x"), c.Mutex("x", fencelock.MaxHold(time.Second))
		first := start(ctxb, mu).wait(t, 0)
		second := start(ctxb, mu)
		unlock(t, first)
		unlock(t, second.wait(t, 0))
		lost := start(ctxb, fixed).wait(t, 0)
		ended(t, lost.Context())
		// Neither the end nor the option of an earlier lease is in the next.
		again := start(ctxb, mu).wait(t, time.Second)
		time.Sleep(10 * ttl)
		if !again.Valid() {
			t.Errorf("the next lease ended: %v", again.Err())
		}
		unlock(t, again)
		wantIs(t, "the lost one", lost.Unlock(ctxb), fencelock.LossMaxHold)
	})
}

func TestCandidateWithoutItsSessionDoesNotLead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		st := tap(m)
		var open driver.Session
		st.OnOpen = func(ctx context.Context, req driver.OpenRequest, next locktest.OpenFunc) (driver.Session, driver.Renewal, error) {
			ss, renewal, err := next(ctx, req)
			open = ss
			return ss, renewal, err
		}
		a, b, d := newClient(t, m, nil), newClient(t, st, nil), newClient(t, m, nil)
		l := lock(t, a, "leader")
		phantom := start(ctxb, b.Mutex("leader"))
		if err := open.Close(ctxb); err != nil { // as if its session had been revoked
			t.Fatal(err)
		}
		candidates := []*acquisition{phantom, start(ctxb, d.Mutex("leader"))}
		unlock(t, l)
		for range 2 { // one leads, the other still waits
			time.Sleep(10 * ttl)
			first := candidates[0]
			if !first.over() {
				first = candidates[1]
			}
			leader := first.wait(t, 0)
			candidates = slices.DeleteFunc(candidates, func(a *acquisition) bool { return a == first })
			if len(candidates) > 0 && candidates[0].over() {
				t.Fatalf("tokens %v and %v lead together", leader.Token(), candidates[0].lease.Token())
			}
			wantHolds(t, m, leader)
		}
	})
}

func TestHierarchicalNamesAreDifferentLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		a, b := newClient(t, m, nil), newClient(t, m, nil)
		for i, name := range []string{"jobs", "jobs/", "jobs/42", "jobs/4", "Jobs", "jobs 42", "jobs:42", "*", "jobs/*", "jobs/42/x"} {
			c := []*fencelock.Client{a, b}[i%2]
			if _, err := c.Mutex(name).TryLock(ctxb); err != nil {
				t.Errorf("%q is taken: %v", name, err)
			}
		}
	})
}

func TestWaitersDoNotHoldUpRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		l := lock(t, newClient(t, m, nil), "taken")
		c := newClient(t, bent(t, m, `name("slow", on(attempt, lose(request)))`), &fencelock.Options{StoreTimeout: time.Hour})
		mine := lock(t, c, "mine")
		ctx, cancel := context.WithCancel(ctxb)
		var waiters []*acquisition
		for range 50 {
			waiters = append(waiters, start(ctx, c.Mutex("taken")), start(ctx, c.Mutex("slow")))
		}
		time.Sleep(10 * ttl)
		if !mine.Valid() {
			t.Errorf("lost: %v", mine.Err())
		}
		cancel()
		for _, w := range waiters {
			<-w.done
			wantIs(t, "Lock", w.err, context.Canceled)
		}
		unlock(t, mine)
		unlock(t, l)
	})
}

func TestReadersEndOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		dies := newClient(t, bent(t, m, `during(1s, 10m, lose(request))`), nil)
		lives, writer := newClient(t, m, nil), newClient(t, m, nil)
		read := func(c *fencelock.Client, opts ...fencelock.LockOption) *fencelock.Lease {
			l, err := c.RWMutex("x", opts...).RLock(ctxb)
			must.OK(t, err)
			return l
		}
		dead, short, long := read(dies), read(lives, fencelock.MaxHold(300*time.Millisecond)), read(lives)
		w := start(ctxb, writer.Mutex("x"))
		time.Sleep(10 * ttl)
		if dead.Valid() || short.Valid() || !long.Valid() || w.over() {
			t.Fatalf("valid: dead %v, short %v, long %v; the writer is in: %v", dead.Valid(), short.Valid(), long.Valid(), w.over())
		}
		unlock(t, long)
		unlock(t, w.wait(t, 0))
	})
}

func TestRenewalKeepsNoLeaseOfAnotherClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		a, b := newClient(t, m, nil), newClient(t, bent(t, m, `during(1m, 1h, lose(request))`), nil)
		l, holder := lock(t, a, "x"), lock(t, a, "keeps its session alive")
		if _, err := m.Break(ctxb, "x", l.Token()); err != nil {
			t.Fatal(err)
		}
		lock(t, b, "x") // and dies with it a minute later
		time.Sleep(time.Minute + 2*ttl)
		wantClaims(t, m, "x", 0, 0)
		wantHolds(t, m, holder)
	})
}

func TestWriterAfterADeadReaderIsAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		dies := newClient(t, bent(t, m, `during(1s, 10m, lose(request))`), nil)
		if _, err := dies.RWMutex("x").RLock(ctxb); err != nil {
			t.Fatal(err)
		}
		w := lock(t, newClient(t, m, nil), "x")
		_, err := newClient(t, m, nil).RWMutex("x").TryRLock(ctxb)
		wantIs(t, "TryRLock", err, fencelock.ErrBusy)
		wantHolds(t, m, w)
	})
}

func TestUnlockAfterALossReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, bent(t, newStore(), `during(1s, 1h, lose(request))`), nil)
		l := lock(t, c, "x")
		ended(t, l.Context())
		began := time.Now()
		for range 3 {
			wantIs(t, "Unlock", l.Unlock(ctxb), fencelock.ErrLost)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestNothingIsKeptForAFreeLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newStore()
		c := newClient(t, m, nil)
		var last fencelock.Token
		for i := range 1000 {
			l := lock(t, c, fmt.Sprint("n", i))
			if l.Token() <= last {
				t.Fatalf("token %v after %v", l.Token(), last)
			}
			last = l.Token()
			unlock(t, l)
			if _, err := c.Mutex(fmt.Sprint("n", i)).TryLock(context.WithoutCancel(l.Context())); err != nil {
				t.Fatal(err)
			}
		}
		must.OK(t, c.Close(ctxb))
		page, err := m.List(ctxb, driver.ListQuery{Max: 10})
		if err != nil || len(page.Locks) != 0 || coreOf(c).Queues() != 0 {
			t.Errorf("%d locks in the store, %d names in the client: %v", len(page.Locks), coreOf(c).Queues(), err)
		}
		l := lock(t, newClient(t, m, nil), "n0")
		if l.Token() <= last || errors.Is(l.Err(), fencelock.ErrLost) {
			t.Errorf("token %v after %v", l.Token(), last)
		}
	})
}
