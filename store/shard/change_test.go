// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"errors"
	"slices"
	"strings"
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

// wantErr fails the test if an error is not one of a kind with a text.
func wantErr(t *testing.T, what string, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want %v with %q", what, err, kind, text)
	}
}

func try(t *testing.T, c *fencelock.Client, name string) error {
	t.Helper()
	l, err := c.Mutex(name).TryLock(t.Context())
	if err == nil {
		err = l.Unlock(t.Context())
	}
	return err
}

// TestAddingAMember goes through the steps of docs/scaling.md: at no moment can two
// processes hold a name that moves, and it can be locked again as soon as the last
// process with the earlier list has ended.
func TestAddingAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		old := made(t, shard.Member{Name: "a", Store: a})
		joining := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b, Change: shard.Joins})
		next := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b})
		moves, stays := nameAt(next, "b"), nameAt(next, "a")

		first, second := client(t, old), client(t, joining)
		l := lock(t, first, moves)
		lock(t, second, stays).Unlock(t.Context())
		wantErr(t, "a name that moves", try(t, second, moves), fencelock.ErrUnavailable, "still does (members a); stop it or wait")
		if got := strays(t, joining); !slices.Equal(got, []string{"a " + moves}) {
			t.Errorf("strays while an old process holds it: %q", got)
		}
		if st, err := joining.Inspect(t.Context(), moves); err != nil || len(st.Holders) != 1 {
			t.Errorf("Inspect does not find the holder at the earlier member: %+v, %v", st, err)
		}
		wantErr(t, "SetLimit of a name that moves", joining.SetLimit(t.Context(), moves, 1), driver.ErrUnavailable, "after the change")
		wantErr(t, "the next list beside the old one", try(t, client(t, next), stays), driver.ErrRefused, "another list (members a) than ours (members a, b)")
		must.OK(t, l.Unlock(t.Context()))
		wantErr(t, "an old process that holds nothing", try(t, second, moves), fencelock.ErrUnavailable, "still does")
		first.Close(t.Context())

		lock(t, second, moves)
		wantErr(t, "an old process that comes back", try(t, client(t, old), stays), driver.ErrRefused, "another list (members a, b)")
		if err := joining.SetLimit(t.Context(), nameAt(next, "b"), 1); err != nil {
			t.Errorf("SetLimit after the change: %v", err)
		}
		third := client(t, next)
		lock(t, third, stays)
		if err := try(t, third, moves); !errors.Is(err, fencelock.ErrBusy) {
			t.Errorf("the moved name at a process without the mark: got %v, want busy", err)
		}
	})
}

// TestRemovingAMember: the names of the member go to the others when no process uses the
// earlier list, even if the member is down.
func TestRemovingAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		down, err := faultstore.Wrap(b, faultstore.MustParse("fail"), nil)
		must.OK(t, err)
		old := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b})
		leaving := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: down, Change: shard.Leaves})
		moves := nameAt(old, "b")
		first, second := client(t, old), client(t, leaving)
		lock(t, first, moves)
		wantErr(t, "a name that moves", try(t, second, moves), fencelock.ErrUnavailable, "(members a, b)")
		first.Close(t.Context())
		lock(t, second, moves)
		if st, err := a.Inspect(t.Context(), moves); err != nil || len(st.Holders) != 1 {
			t.Errorf("the name is not at the member that stays: %+v, %v", st, err)
		}
		wantErr(t, "an old process that comes back", try(t, client(t, old), nameAt(old, "a")), driver.ErrRefused, "(members a)")
	})
}

// TestBreakWhileANameMoves: an operator breaks the grant where it is.
func TestBreakWhileANameMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		joining := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b, Change: shard.Joins})
		moves := nameAt(joining, "b")
		l := lock(t, client(t, made(t, shard.Member{Name: "a", Store: a})), moves)
		if _, err := joining.Break(t.Context(), moves, l.Token()); err != nil {
			t.Errorf("Break at the earlier member: %v", err)
		}
		if _, err := joining.Break(t.Context(), moves, l.Token()); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Break of what is broken: got %v, want ErrNotHeld", err)
		}
	})
}

// TestTwoChangesAtOnceAreRefused: processes between different pairs of lists do not run
// side by side.
func TestTwoChangesAtOnceAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := memstore.New(nil)
		changing := func(name string) *fencelock.Client {
			return client(t, made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: name, Store: memstore.New(nil), Change: shard.Joins}))
		}
		stays := nameAt(made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: a}, shard.Member{Name: "c", Store: a}), "a")
		lock(t, changing("b"), stays)
		wantErr(t, "another change", try(t, changing("c"), stays), driver.ErrRefused, "another list (members a, then a, b)")
		unrelated := client(t, made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "x", Store: memstore.New(nil)}))
		wantErr(t, "a third list", try(t, unrelated, stays), driver.ErrRefused, "another list")
	})
}

// TestChangeAfterAProcessDied: the marker of a process that was killed ends with its
// session, one TTL later.
func TestChangeAfterAProcessDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		cut, err := faultstore.Wrap(a, faultstore.MustParse("after(20, fail)"), nil)
		must.OK(t, err)
		dying := client(t, made(t, shard.Member{Name: "a", Store: cut}))
		lock(t, dying, "x")
		joining := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b, Change: shard.Joins})
		second := client(t, joining)
		moves := nameAt(joining, "b")
		if err := try(t, second, moves); !errors.Is(err, fencelock.ErrUnavailable) {
			t.Errorf("while the process lives: %v", err)
		}
		time.Sleep(time.Minute)
		if err := try(t, second, moves); err != nil {
			t.Errorf("long after the process was cut off: %v", err)
		}
	})
}

// TestRemovingAMemberThatLostItsData: the names of a member that lost its data and cannot be opened
// since go to the others, as those of a member that is down do. Its marks are not given back there.
func TestRemovingAMemberThatLostItsData(t *testing.T) {
	for _, fault := range []string{"on(open, nth(2, fail))", "on(reclaim, nth(2, fail))"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := memstore.New(nil), memstore.New(nil)
				ill, err := faultstore.Wrap(b, faultstore.MustParse(fault), nil)
				must.OK(t, err)
				old := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b})
				c := client(t, made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: ill, Change: shard.Leaves}))
				lock(t, c, nameAt(old, "a"))
				if st, err := b.Inspect(t.Context(), ".shard/change"); err != nil || len(st.Holders) != 1 {
					t.Fatalf("the mark at the member that leaves: %+v, %v", st, err)
				}
				b.Reset()
				lock(t, c, nameAt(old, "b"))
				time.Sleep(time.Minute)
				if st, err := b.Inspect(t.Context(), ".shard/change"); err != nil || len(st.Holders) != 0 {
					t.Errorf("the mark of the change is back after the change: %+v, %v", st, err)
				}
				if st, err := b.Inspect(t.Context(), ".shard/members"); err != nil || len(st.Holders) != 1 {
					t.Errorf("the mark of the list is not taken when the member answers again: %+v, %v", st, err)
				}
			})
		})
	}
}

// TestBrokenMarkIsTakenBeforeTheNextLock: a process whose mark an operator broke, and that could not go over to
// the next list at that moment, is marked again before it locks.
func TestBrokenMarkIsTakenBeforeTheNextLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memstore.New(nil), memstore.New(nil)
		joining := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b, Change: shard.Joins})
		moves, stays := nameAt(joining, "b"), nameAt(joining, "a")
		lock(t, client(t, made(t, shard.Member{Name: "a", Store: a})), "of the earlier list")
		c := client(t, joining)
		lock(t, c, stays).Unlock(t.Context())
		st, err := a.Inspect(t.Context(), ".shard/change")
		if err != nil || len(st.Holders) != 1 {
			t.Fatalf("the mark: %+v, %v", st, err)
		}
		if _, err := a.Break(t.Context(), ".shard/change", st.Holders[0].Token); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "a name that moves", try(t, c, moves), fencelock.ErrUnavailable, "still does")
		lock(t, c, stays)
		if st, err := a.Inspect(t.Context(), ".shard/change"); err != nil || len(st.Holders) != 1 {
			t.Errorf("the process locks without its mark: %+v, %v", st, err)
		}
	})
}
