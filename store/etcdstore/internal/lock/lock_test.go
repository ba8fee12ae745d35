// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

func TestEscape(t *testing.T) {
	for _, name := range []string{"", "a", "a|b", "a%7Cb", "%", "orders/42", "a\x00b", "日本", "\xff\xfe", "a b\n"} {
		e := Escape(name)
		if strings.ContainsAny(e, "|\x00\n") {
			t.Errorf("%q is escaped as %q, which holds a bar or a control character", name, e)
		}
		back, err := Unescape(e)
		if err != nil || back != name {
			t.Errorf("%q comes back as %q, %v", name, back, err)
		}
		for i := range len(name) {
			if !strings.HasPrefix(e, Escape(name[:i])) {
				t.Errorf("the prefix %q of %q is no prefix in keys", name[:i], name)
			}
		}
	}
	if _, err := Unescape("a%1"); err == nil {
		t.Error("a cut escape is understood")
	}
}

func TestKeysOfNamesDoNotMix(t *testing.T) {
	s := NewSpace("ns")
	names := []string{"a", "a/b", "a|", "a|held", "a%", "aa", "", "a|held|x"}
	for _, n := range names {
		for _, o := range names {
			if n != o && strings.HasPrefix(s.Held(o), s.Lock(n)) {
				t.Errorf("a grant of %q is in the range of %q", o, n)
			}
		}
	}
	if strings.HasPrefix(NewSpace("ns|lock").All(), s.All()) {
		t.Error("one namespace is inside another")
	}
}

func TestParse(t *testing.T) {
	s := NewSpace("ns")
	id := driver.NewSessionID()
	p, err := s.Parse(s.HeldOf("a|b", id) + "7" + EndMin)
	if err != nil || p.Queued || p.Session != id || p.Slot != 7 || p.End != EndMin {
		t.Fatalf("got %+v, %v", p, err)
	}
	if name, err := p.Plain(); err != nil || name != "a|b" {
		t.Errorf("got name %q, %v", name, err)
	}
	for _, bad := range []string{"", "ns|lock|a", s.Lock("a") + "x", s.Held("a") + "zz.0", s.Held("a") + id.String(), s.Queue("a") + id.String() + ".x"} {
		if _, err := s.Parse(bad); err == nil {
			t.Errorf("%q is understood as a key of a lock", bad)
		}
	}
}

func TestEnd(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a|": "a}", "\xff": "\x00"} {
		if got := string(End(prefix)); got != want {
			t.Errorf("the keys with %q end before %q, want %q", prefix, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	last := driver.Token(0)
	for _, at := range []struct{ rev, index int64 }{{1, 0}, {1, 1}, {1, slots - 1}, {2, 0}, {1 << 48, 0}, {1<<49 - 1, slots - 1}} {
		token := Token(at.rev, int(at.index))
		if token <= last || token%driver.TokenStep != 0 || token > math.MaxInt64-(driver.TokenStep-1) {
			t.Errorf("revision %d index %d has token %d after %d", at.rev, at.index, token, last)
		}
		last = token
	}
	if MaxPromote+1 > slots {
		t.Error("one transaction may grant more than a revision has tokens for")
	}
}

// claimOf reads "x" (exclusive), "r" (shared), "2/3" (weight and limit) or "x:me"
// (exclusive with a Reentry), each on its own session.
func claimOf(text string, n int) *Entry {
	e := &Entry{ID: driver.ClaimID{Session: driver.SessionID{byte(n), byte(n >> 8)}, Seq: uint64(n)}, Key: text, Create: int64(n + 1), Mod: int64(n + 1),
		Value: Value{Seq: uint64(n), Weight: 1}}
	kind, reentry, _ := strings.Cut(text, ":")
	e.Value.Reentry = reentry
	if kind != "x" {
		e.Value.Mode = sharedMode
	}
	if strings.Contains(kind, "/") {
		fmt.Sscanf(kind, "%d/%d", &e.Value.Weight, &e.Value.Limit)
	}
	return e
}

// lockOf reads "holders | queue".
func lockOf(text string) *Snapshot {
	held, queue, _ := strings.Cut(text, "|")
	s := &Snapshot{Rev: 1000}
	n := 1
	for _, f := range strings.Fields(held) {
		kept := strings.HasPrefix(f, "kept-")
		e := claimOf(strings.TrimPrefix(f, "kept-"), n)
		if kept {
			s.Held = append(s.Held, &Grant{ID: e.ID, Keeps: []*Entry{e}})
		} else {
			s.Held = append(s.Held, &Grant{ID: e.ID, Main: e})
		}
		n++
	}
	for _, f := range strings.Fields(queue) {
		s.Queue = append(s.Queue, claimOf(f, n))
		n++
	}
	s.Count = len(s.Queue)
	return s
}

func keysOf(entries []*Entry) (keys []string) {
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		lock             string
		limit            int64
		granted, because string
		tail             bool
	}{
		{"|", 0, "", "", true},
		{"x |", 0, "", "", true},
		{"| x x", 0, "x", "", false},
		{"x | x", 0, "", "x", false},
		{"| r r x r", 0, "r r", "", false},
		{"r r | x r", 0, "", "r", false},
		{"r | r r", 0, "r r", "", true},
		{"x:me | x x:me", 0, "x:me", "", false},
		{"x:me | x:you x:me", 0, "x:me", "", false},
		{"kept-x:me | x:me", 0, "", "x:me", false},
		{"kept-r | r x", 0, "r", "", false},
		{"2/3 | 2/3 1/3", 0, "", "2/3", false},
		{"2/3 | 1/3 1/3", 0, "1/3", "2/3", false},
		{"1/3 1/3 | 3/3 1/3", 0, "", "1/3", false},
		{"1/5 | 5/5", 2, "", "1/5", false},
		{"| 5/5 1/5", 2, "5/5", "", false},
		{"1/1 | 1/1 1/1", 2, "1/1", "1/1", false},
		{"1/5 1/5 1/5 | 1/5", 1, "", "1/5", false},
	} {
		s := lockOf(c.lock)
		s.Limit = c.limit
		p := s.Plan()
		var granted []string
		for _, pr := range p.Promote {
			granted = append(granted, pr.Key)
		}
		if got := strings.Join(granted, " "); got != c.granted {
			t.Errorf("%q limit %d: grants %q, want %q", c.lock, c.limit, got, c.granted)
		}
		if got := strings.Join(keysOf(p.Witness), " "); got != c.because || p.Tail != c.tail || p.Again {
			t.Errorf("%q limit %d: rests on %q, tail %v, again %v; want %q and %v", c.lock, c.limit, got, p.Tail, p.Again, c.because, c.tail)
		}
	}
}

// TestPlanJoinsWhatItGrants: claims of one Reentry that one step grants have one
// token, which is that of the first of them.
func TestPlanJoinsWhatItGrants(t *testing.T) {
	for lock, want := range map[string][]int{
		"| x:me x:me":           {0, 0},
		"| x:me x x:me x:me r":  {0, 0, 0},
		"| r r r":               {0, 1, 2},
		"x:me | x x:me x:me":    {0, 1}, // they have the token of the holder
		"| x:me x:you x:me x:u": {0, 0},
	} {
		var got []int
		for _, pr := range lockOf(lock).Plan().Promote {
			got = append(got, pr.Index)
			if (pr.Join != 0) != strings.HasPrefix(lock, "x:me") {
				t.Errorf("%q: %s joins token %v", lock, pr.Key, pr.Join)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: grants with the tokens of %v, want %v", lock, got, want)
		}
	}
}

func TestPlanDropsWhatIsOver(t *testing.T) {
	s := lockOf("x | x")
	s.Held[0].Main.Value.MaxHold = 1
	if p := s.Plan(); len(p.Drop) != 1 || len(p.Promote) != 1 {
		t.Errorf("a grant without its +max: dropped %d, granted %d, want 1 and 1", len(p.Drop), len(p.Promote))
	}
	s.Held[0].Max = &Entry{}
	if p := s.Plan(); !p.Idle() {
		t.Errorf("a grant with its +max is ended: %+v", p)
	}
}

func TestPlanIsBounded(t *testing.T) {
	s := lockOf("|" + strings.Repeat(" r", 3*MaxPromote))
	p := s.Plan()
	if len(p.Promote) != MaxPromote || !p.Again {
		t.Errorf("granted %d at once, again %v; want %d and true", len(p.Promote), p.Again, MaxPromote)
	}
	s = lockOf(strings.Repeat(" 1/100", 99) + "| 50/100")
	if p := s.Plan(); !p.Again || len(p.Witness) > maxWitness {
		t.Errorf("a decision rests on %d keys, again %v", len(p.Witness), p.Again)
	}
}

// TestFreshClaimComparesTheQueue: a claim that is not queued yet must not overtake
// one that came since.
func TestFreshClaimComparesTheQueue(t *testing.T) {
	s := lockOf("|")
	e := claimOf("x", 9)
	e.Create = 0
	if p := s.WithLast(e).Plan(); len(p.Promote) != 1 || !p.Tail {
		t.Errorf("granted %d, tail %v; want 1 and true", len(p.Promote), p.Tail)
	}
}

func TestFreeSlot(t *testing.T) {
	id := driver.NewSessionID()
	s := &Snapshot{}
	for _, slot := range []int{0, 2} {
		s.AddHeld(&Entry{ID: driver.ClaimID{Session: id}, Slot: slot}, "")
	}
	s.AddHeld(&Entry{ID: driver.ClaimID{Session: id}, Slot: 3}, EndMin) // left behind
	if got := s.FreeSlot(id, []int{1}); got != 4 {
		t.Errorf("slot %d is free, want 4", got)
	}
	if got := s.FreeSlot(driver.NewSessionID(), nil); got != 0 {
		t.Errorf("slot %d is free for another session, want 0", got)
	}
}

// TestTwoLeaveAtOnce plays all orders of two transactions that were decided on the
// same snapshot: whatever holds before, no claim waits unnecessarily after both.
func TestTwoLeaveAtOnce(t *testing.T) {
	kinds := []string{"x", "r", "1/2", "2/2", "2/3", "x:me"}
	pick := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		s := randomLock(pick, kinds)
		valid := s.Valid()
		if len(valid) < 2 {
			continue
		}
		i, j := pick.IntN(len(valid)), pick.IntN(len(valid))
		if i == j {
			continue
		}
		first := s.Without(valid[i])
		after := first.carryOut(first.Plan())
		second := s.Without(valid[j])
		plan := second.Plan()
		if after.restsOn(s, plan) {
			after = after.Without(after.Find(valid[j].ID)).carryOut(plan)
		} else {
			again := after.Without(after.Find(valid[j].ID))
			after = again.carryOut(again.Plan())
		}
		if p := after.Plan(); !p.Idle() && !p.Again {
			t.Fatalf("%v: after %d and %d left, a claim waits unnecessarily: %v", s, i, j, p)
		}
	}
}

// randomLock returns a lock whose plan is idle.
func randomLock(pick *rand.Rand, kinds []string) *Snapshot {
	text := "|"
	for range 2 + pick.IntN(5) {
		text += " " + kinds[pick.IntN(len(kinds))]
	}
	s := lockOf(text)
	return s.carryOut(s.Plan())
}

// carryOut is what a transaction does to a lock.
func (s *Snapshot) carryOut(p *Plan) *Snapshot {
	c := *s
	c.Held = slices.Clone(s.Held)
	for _, pr := range p.Promote {
		e := *pr.Entry
		e.Value.Token = pr.Join
		c.Held = append(c.Held, &Grant{ID: e.ID, Main: &e})
		c.Queue = slices.DeleteFunc(slices.Clone(c.Queue), func(o *Entry) bool { return o.ID == e.ID })
	}
	c.Count = len(c.Queue)
	return &c
}

// restsOn reports whether the comparisons of a plan that was made on old hold now.
func (s *Snapshot) restsOn(old *Snapshot, p *Plan) bool {
	here := func(e *Entry) bool {
		return slices.ContainsFunc(s.Queue, func(o *Entry) bool { return o.ID == e.ID }) || s.Find(e.ID) != nil
	}
	queued := func(e *Entry) bool { return slices.ContainsFunc(s.Queue, func(o *Entry) bool { return o.ID == e.ID }) }
	for _, pr := range p.Promote {
		if !queued(pr.Entry) {
			return false
		}
	}
	for _, g := range s.Held { // no claim was granted since
		if len(p.Promote) > 0 && old.Find(g.ID) == nil {
			return false
		}
	}
	if p.Block != nil && !queued(p.Block) {
		return false
	}
	return !slices.ContainsFunc(p.Witness, func(w *Entry) bool { return !here(w) })
}

// TestDowngradedClaimDoesNotLinger: a try of another process would wait for a reader that gives
// nothing back.
func TestDowngradedClaimDoesNotLinger(t *testing.T) {
	v := NewValue(1, &driver.Terms{Weight: 1, Linger: time.Second, Record: &driver.Record{}}, time.Minute, time.Now())
	v.Downgrade(&driver.Terms{Mode: driver.Shared, Weight: 1})
	if !v.Shared() || v.Linger != 0 {
		t.Errorf("got %+v", v)
	}
}
