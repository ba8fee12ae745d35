// SPDX-License-Identifier: Apache-2.0

package vote

import (
	"math/rand/v2"
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// dumb says the same as Decide by trying everything: which sets of nodes agree,
// and what all the answers that may still come would make of it.
func dumb(need int, votes []Vote) Kind {
	granted := 0
	for _, v := range votes {
		if v.State == Yes {
			granted++
		}
	}
	enough, agreed := false, false
	complete(votes, func(all []Vote) {
		yes := 0
		for _, v := range all {
			if v.State == Yes {
				yes++
			}
		}
		enough = enough || yes >= need
		agreed = agreed || winner(need, all) != 0
	})
	switch {
	case winner(need, votes) != 0:
		return Won
	case !enough:
		return Lost
	case granted < need:
		return Pending
	case agreed:
		return Near
	}
	return Split
}

// complete calls f with every possible outcome of the open votes. A token that no vote has
// yet cannot help, so the tokens of the other votes, and one new token, are enough.
func complete(votes []Vote, f func([]Vote)) {
	for i, v := range votes {
		if v.State != Open {
			continue
		}
		rest := append([]Vote(nil), votes...)
		rest[i].State = Out
		complete(rest, f)
		for _, w := range votes {
			if w.State == Yes {
				rest[i] = Vote{State: Yes, Token: w.Token}
				complete(rest, f)
			}
		}
		rest[i] = Vote{State: Yes, Token: 999}
		complete(rest, f)
		return
	}
	f(votes)
}

// winner tries every set of nodes.
func winner(need int, votes []Vote) driver.Token {
	for set := range 1 << len(votes) {
		size, token, same := 0, driver.Token(0), true
		for i, v := range votes {
			if set>>i&1 == 0 {
				continue
			}
			size++
			same = same && v.State == Yes && (token == 0 || token == v.Token)
			token = v.Token
		}
		if same && size >= need {
			return token
		}
	}
	return 0
}

func randomVotes(r *rand.Rand, n int) []Vote {
	votes := make([]Vote, n)
	for i := range votes {
		if votes[i].State = State(r.IntN(5)); votes[i].State == Yes {
			votes[i].Token = driver.Token(1 + r.IntN(3))
		}
	}
	return votes
}

func TestDecideAgainstItsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	seen := map[Kind]int{}
	for range 20_000 {
		n := 1 + r.IntN(6)
		votes := randomVotes(r, n)
		need := Needed(n, r.IntN(4) == 0)
		got := Decide(need, votes)
		if want := dumb(need, votes); got.Kind != want {
			t.Fatalf("%d of %v: got %v, the twin says %v", need, votes, got.Kind, want)
		}
		if w := winner(need, votes); got.Kind == Won && got.Token != w {
			t.Fatalf("%d of %v: got %v, the twin says %v", need, votes, got.Token, w)
		}
		seen[got.Kind]++
	}
	for k := Pending; k <= Lost; k++ {
		if seen[k] < 50 {
			t.Errorf("%v came up %d times only", k, seen[k])
		}
	}
}

// TestMoreVotesNeverUnwin: what is decided stays decided, whatever comes later.
func TestMoreVotesNeverUnwin(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 20_000 {
		n := 1 + r.IntN(7)
		votes := randomVotes(r, n)
		need := Majority(n)
		before := Decide(need, votes)
		for i := range votes {
			if votes[i].State == Open && r.IntN(2) == 0 {
				votes[i] = randomVotes(r, 1)[0]
			}
		}
		after := Decide(need, votes)
		if before.Kind == Won && (after.Kind != Won || after.Token != before.Token) {
			t.Fatalf("%v: won with %v, then %v with %v", votes, before.Token, after.Kind, after.Token)
		}
		if before.Kind == Lost && after.Kind != Lost || before.Kind == Split && after.Kind != Split {
			t.Fatalf("%v: %v, then %v", votes, before.Kind, after.Kind)
		}
	}
}

// TestRenewAgainstItsTwin: the twin asks of every claim by itself, and of every way
// in which the open answers may come out.
func TestRenewAgainstItsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	good := func(n int, groups []Group, kept Set) bool {
		if 2*kept.Len() <= n {
			return false
		}
		for _, g := range groups {
			have := 0
			for i := range n {
				if g.Nodes.Has(i) && kept.Has(i) {
					have++
				}
			}
			if have < g.Need {
				return false
			}
		}
		return true
	}
	for range 20_000 {
		n := 1 + r.IntN(6)
		kept := Set(r.IntN(1 << n))
		open := Set(r.IntN(1<<n)) &^ kept
		var groups []Group
		for range r.IntN(3) {
			groups = append(groups, Group{Set(r.IntN(1 << n)), Needed(n, r.IntN(3) == 0)})
		}
		may := false
		for more := range 1 << n {
			if Set(more)&^open == 0 && good(n, groups, kept|Set(more)) {
				may = true
			}
		}
		got := Renew(n, groups, kept, open)
		switch {
		case (got == Renewed) != good(n, groups, kept),
			got == Unsettled && !may,
			(got == Failed || got == Short) && may,
			got == Failed && 2*(kept|open).Len() > n:
			t.Fatalf("%d nodes, %v, kept %b, open %b: got %v", n, groups, kept, open, got)
		}
	}
}
