// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestListWithoutANode: every held lock is listed once while a majority answers,
// whichever node does not, and the listing does not wait for that node at every lock.
func TestListWithoutANode(t *testing.T) {
	gone := away(0, time.Hour)
	unlisted := faultstore.On(faultstore.List, faultstore.LoseRequest())
	for name, faults := range map[string]map[int]faultstore.Fault{
		"all well":              nil,
		"a away":                {0: gone},
		"b away":                {1: gone},
		"c away":                {2: gone},
		"a and e away":          {0: gone, 4: gone},
		"a inspects, no list":   {0: unlisted},
		"a and b: no list":      {0: unlisted, 1: unlisted},
		"c lists, then no more": {2: faultstore.On(faultstore.List, faultstore.After(1, faultstore.LoseRequest()))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 5, grace())
				holder := r.process(nil, nil)
				for i := range 40 {
					r.lock("holder", holder, fmt.Sprint("x", i))
				}
				time.Sleep(time.Second)
				s := r.store(faults)
				defer s.Close()
				began := time.Now()
				seen := list(t, s, 7)
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v; a node may take 200 ms", took)
				}
				for i := range 40 {
					if n := seen[fmt.Sprint("x", i)]; n != 1 {
						t.Errorf("x%d is listed %d times", i, n)
					}
				}
			})
		})
	}
}

// TestListOfSlowNodes: nodes that answer late are no reason to list a lock twice, or to leave it
// out.
func TestListOfSlowNodes(t *testing.T) {
	for _, slow := range [][]int{{0, 1}, {1, 2}, {3, 4}} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 5, grace())
				for i := range 10 { // on a majority that a slow node decides about
					r.lock("holder", r.process(map[int]faultstore.Fault{i % 5: away(0, time.Hour), (i + 1) % 5: away(0, time.Hour)}, nil), fmt.Sprint("x", i))
				}
				time.Sleep(time.Second)
				faults := map[int]faultstore.Fault{}
				for _, n := range slow {
					faults[n] = faultstore.On(faultstore.Inspect, faultstore.Delay(75*time.Millisecond, 75*time.Millisecond))
				}
				s := r.store(faults)
				defer s.Close()
				seen := list(t, s, 3)
				for i := range 10 {
					if n := seen[fmt.Sprint("x", i)]; n != 1 {
						t.Errorf("x%d is listed %d times", i, n)
					}
				}
			})
		})
	}
}

// list counts how often each lock is listed.
func list(t *testing.T, s driver.Store, most int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for cursor := ""; ; {
		page, err := s.List(t.Context(), driver.ListQuery{Cursor: cursor, Max: most})
		if err != nil {
			t.Fatalf("after %d locks: %v", len(seen), err)
		}
		for _, st := range page.Locks {
			seen[st.Name]++
		}
		if cursor = page.Next; cursor == "" {
			return seen
		}
	}
}

// TestListInTheMiddle: a node fails between two of its pages. What it had shown may be
// shown again; nothing is missing.
func TestListInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		holder := r.process(nil, nil)
		for i := range 10 {
			r.lock("holder", holder, fmt.Sprint("x", i))
		}
		time.Sleep(time.Second)
		s := r.store(map[int]faultstore.Fault{0: faultstore.On(faultstore.List, faultstore.After(1, faultstore.LoseRequest()))})
		defer s.Close()
		if seen := list(t, s, 4); len(seen) != 10 {
			t.Errorf("%d of 10 locks are listed: %v", len(seen), seen)
		}
	})
}

// TestListShowsALockThatReachesANodeLate: a node gets the grant after it was listed, and before the next one is. The lock was
// held all the time, and is listed once.
func TestListShowsALockThatReachesANodeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		held := r.lock("holder", r.process(map[int]faultstore.Fault{0: away(0, time.Minute)}, nil), "x")
		time.Sleep(time.Second)
		s := r.store(nil)
		defer s.Close()
		var first driver.Page
		for r.on("x", held.Token()) != "a b c" {
			var err error
			if first, err = s.List(t.Context(), driver.ListQuery{Max: 7}); err != nil || len(first.Locks) > 0 || first.Next == "" {
				t.Fatalf("the first node shows %+v, %v", first, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		seen := 0
		for cursor := first.Next; cursor != ""; {
			page, err := s.List(t.Context(), driver.ListQuery{Max: 7, Cursor: cursor})
			must.OK(t, err)
			seen, cursor = seen+len(page.Locks), page.Next
		}
		if seen != 1 {
			t.Errorf("a lock that is held is listed %d times", seen)
		}
	})
}

// TestListNeedsAMajority: with too few nodes there is an error, not a part of the
// list; and a cursor of something else is refused.
func TestListNeedsAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		r.lock("holder", r.process(nil, nil), "x")
		s := r.store(map[int]faultstore.Fault{0: away(0, time.Hour), 1: away(0, time.Hour)})
		defer s.Close()
		if page, err := s.List(t.Context(), driver.ListQuery{}); err == nil {
			t.Errorf("one of three nodes answers and the list is %+v", page)
		}
		for _, cursor := range []string{"1", "a b c d e", "-1 0 0 1 ", "2 0 0 1 ", "0 0 0 x "} {
			if _, err := s.List(t.Context(), driver.ListQuery{Cursor: cursor}); !errors.Is(err, driver.ErrRefused) {
				t.Errorf("cursor %q: got %v, want refused", cursor, err)
			}
		}
	})
}

// TestKeptReadersAreTwo: two readers have ended, and the lock is kept for both by their MinHold. Each is shown, and a break of one leaves the other.
func TestKeptReadersAreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		s := r.store(nil)
		defer s.Close()
		var tokens []driver.Token
		for range 2 {
			reader := opened(t, s, "x")
			c := claim(1)
			c.Terms = &driver.Terms{Mode: driver.Shared, Weight: 1, MinHold: time.Hour, Record: &driver.Record{Owner: "reader"}}
			got, err := reader.Attempt(t.Context(), c)
			must.OK(t, err)
			time.Sleep(time.Second)
			tokens = append(tokens, got.Token)
			must.OK(t, reader.Close(t.Context()))
		}
		st, err := s.Inspect(t.Context(), "x")
		if err != nil || len(st.Holders) != 2 {
			t.Errorf("got %v, %v, want two that are kept", st.Holders, err)
		}
		_, err = s.Break(t.Context(), "x", tokens[1])
		must.OK(t, err)
		for i, want := range []string{"a b c", ""} {
			if got := r.on("x", tokens[i]); got != want {
				t.Errorf("after the break of the second, reader %d is on %q, want %q", i+1, got, want)
			}
		}
	})
}
