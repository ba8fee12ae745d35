// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/shard"
)

// TestOtherListIsRefused: a process with another list locks nothing, whichever member it
// comes to first, until the first process has ended.
func TestOtherListIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := memstore.New(nil), memstore.New(nil), memstore.New(nil)
		two := over(t, []*memstore.Store{a, b})
		three := over(t, []*memstore.Store{a, b, c})
		first, second := client(t, two), client(t, three)
		lock(t, first, nameAt(two, "m0"))
		for _, m := range []string{"m0", "m1", "m2"} {
			wantErr(t, "a name at "+m, try(t, second, nameAt(three, m)), driver.ErrRefused, "another list (members m0, m1) than ours (members m0, m1, m2); give all processes the same list")
		}
		if err := try(t, client(t, over(t, []*memstore.Store{a, b})), nameAt(two, "m1")); err != nil {
			t.Errorf("a process with the same list: %v", err)
		}
		first.Close(t.Context())
		time.Sleep(time.Minute)
		lock(t, second, nameAt(three, "m2"))
		wantErr(t, "the first list afterwards", try(t, client(t, two), "x"), driver.ErrRefused, "another list (members m0, m1, m2)")
	})
}

// TestOtherListIsFoundLater: while the shared member is away from the second process both
// hold; when it answers again, the second process loses its leases.
func TestOtherListIsFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		away, err := faultstore.Wrap(a, faultstore.MustParse("during(0s, 20s, fail)"), nil)
		must.OK(t, err)
		one := over(t, []*memstore.Store{a})
		two := made(t, shard.Member{Name: "m0", Store: away}, shard.Member{Name: "m1", Store: b})
		name := nameAt(two, "m1")
		first, second := client(t, one), client(t, two)
		kept, held := lock(t, first, name), lock(t, second, name)
		select {
		case <-held.Context().Done():
		case <-time.After(5 * time.Minute):
			t.Fatal("the second process does not find the other list")
		}
		if !errors.Is(held.Err(), fencelock.ErrLost) || !errors.Is(held.Err(), driver.ErrRefused) {
			t.Errorf("the second process has %v, want lost because it is refused", held.Err())
		}
		if !kept.Valid() {
			t.Errorf("the first process lost its lease: %v", kept.Err())
		}
	})
}

// TestOtherListAtASlowMemberIsRefused: the start waits for a member that is slower than the
// one that keeps the name.
func TestOtherListAtASlowMemberIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		slow, err := faultstore.Wrap(a, faultstore.MustParse("delay(300ms, 300ms)"), nil)
		must.OK(t, err)
		t.Cleanup(slow.Wait)
		lock(t, client(t, over(t, []*memstore.Store{a})), "x")
		two := made(t, shard.Member{Name: "m0", Store: slow}, shard.Member{Name: "m1", Store: b})
		wantErr(t, "a name at the fast member", try(t, client(t, two), nameAt(two, "m1")), driver.ErrRefused, "another list")
		time.Sleep(time.Minute)
	})
}

// TestMemberThatIsDownDisturbsNoOther: neither at the start nor later.
func TestMemberThatIsDownDisturbsNoOther(t *testing.T) {
	for _, fault := range []string{"fail", "lose(request)", "refuse"} {
		synctest.Test(t, func(t *testing.T) {
			down, err := faultstore.Wrap(memstore.New(nil), faultstore.MustParse(fault), &faultstore.Options{LateLimit: time.Second})
			must.OK(t, err)
			s := made(t, shard.Member{Name: "a", Store: memstore.New(nil)}, shard.Member{Name: "b", Store: down})
			c := client(t, s)
			l := lock(t, c, nameAt(s, "a"))
			time.Sleep(time.Minute)
			if !l.Valid() {
				t.Errorf("%s: the lease at the other member was lost: %v", fault, l.Err())
			}
			began := time.Now()
			if err := c.Close(t.Context()); err != nil || time.Since(began) > time.Second {
				t.Errorf("%s: Close took %v: %v", fault, time.Since(began), err)
			}
			time.Sleep(time.Minute) // for what ends by itself
		})
	}
}

// TestTryBesideASilentMember: the first try of a process succeeds although another member answers
// nothing at all, even if the name moves away from that member.
func TestTryBesideASilentMember(t *testing.T) {
	for _, change := range []shard.Change{shard.Stays, shard.Leaves} {
		t.Run(change.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent, err := faultstore.Wrap(memstore.New(nil), faultstore.MustParse("lose(request)"), &faultstore.Options{LateLimit: time.Second})
				must.OK(t, err)
				a, b := shard.Member{Name: "a", Store: memstore.New(nil)}, shard.Member{Name: "b", Store: silent}
				name := nameAt(made(t, a, b), "a")
				if change == shard.Leaves {
					name = nameAt(made(t, a, b), "b")
				}
				b.Change = change
				c := client(t, made(t, a, b))
				if err := try(t, c, name); err != nil {
					t.Error(err)
				}
				_ = c.Close(t.Context())
				time.Sleep(time.Minute) // for what ends by itself
			})
		})
	}
}

// TestMarkersSurviveADataLoss: the lists are kept apart again after all members lost their
// data, and the process with the first list keeps its leases.
func TestMarkersSurviveADataLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := []*memstore.Store{memstore.New(&memstore.Options{Grace: true}), memstore.New(&memstore.Options{Grace: true})}
		s := over(t, mems)
		l := lock(t, client(t, s), nameAt(s, "m0"))
		for _, m := range mems {
			m.Reset()
		}
		time.Sleep(time.Minute)
		other := over(t, mems[:1])
		wantErr(t, "another list after the loss", try(t, client(t, other), nameAt(s, "m0")), driver.ErrRefused, "another list")
		if !l.Valid() {
			t.Errorf("the lease was lost: %v", l.Err())
		}
	})
}

// TestBrokenMarkerIsTakenAgain: an operator who breaks a marker does not open the door for
// another list for longer than a heartbeat.
func TestBrokenMarkerIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := memstore.New(nil)
		s := over(t, []*memstore.Store{a, memstore.New(nil)})
		l := lock(t, client(t, s), nameAt(s, "m0"))
		st, err := a.Inspect(t.Context(), ".shard/members")
		if err != nil || len(st.Holders) != 1 {
			t.Fatalf("the marker: %+v, %v", st, err)
		}
		if _, err := a.Break(t.Context(), ".shard/members", st.Holders[0].Token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantErr(t, "another list", try(t, client(t, over(t, []*memstore.Store{a})), "x"), driver.ErrRefused, "another list")
		if !l.Valid() {
			t.Errorf("the lease was lost: %v", l.Err())
		}
	})
}

// TestMarkersEndWithTheLastSession: after Close nothing is left on any member.
func TestMarkersEndWithTheLastSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := []*memstore.Store{memstore.New(nil), memstore.New(nil)}
		c := client(t, over(t, mems))
		lock(t, c, "x")
		must.OK(t, c.Close(t.Context()))
		for i, m := range mems {
			if page, err := m.List(t.Context(), driver.ListQuery{Max: 10}); err != nil || len(page.Locks) > 0 {
				t.Errorf("member %d has %+v, %v; want nothing", i, page.Locks, err)
			}
		}
	})
}

// TestMarkersAreHidden: they are not listed, and their names cannot be locked.
func TestMarkersAreHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := over(t, []*memstore.Store{memstore.New(nil)})
		c := client(t, s)
		lock(t, c, "x")
		page, err := s.List(t.Context(), driver.ListQuery{Max: 10})
		if err != nil || len(page.Locks) != 1 || page.Locks[0].Name != "x" {
			t.Errorf("listed %+v, %v; want x alone", page.Locks, err)
		}
		wantErr(t, "a lock on a marker", try(t, c, ".shard/members"), driver.ErrRefused, "reserved")
		wantErr(t, "a limit on a marker", s.SetLimit(t.Context(), ".shard/x", 1), driver.ErrRefused, "reserved")
		if got := strays(t, s); len(got) > 0 {
			t.Errorf("strays: %q", got)
		}
	})
}

// TestMembersThatCannotBeMarked: they work as before, and different lists are not noticed.
func TestMembersThatCannotBeMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := edited{memstore.New(nil), func(c *driver.Caps) { c.Reentry = false }}
		lock(t, client(t, made(t, shard.Member{Name: "a", Store: plain})), "x")
		if err := try(t, client(t, made(t, shard.Member{Name: "a", Store: plain}, shard.Member{Name: "b", Store: plain})), "y"); err != nil {
			t.Error(err)
		}
	})
}
