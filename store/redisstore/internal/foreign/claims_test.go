// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

var (
	grant = driver.Outcome{State: driver.Granted}
	busy  = driver.Outcome{State: driver.Busy}
)

// step is something that happens to claims of a process.
type step struct {
	do   string
	seqs []uint64
}

// TestRenewalIsComparedWithWhatIsKnown: a claim is missing or left over only if it cannot have been
// granted or withdrawn while the renewal was under way.
func TestRenewalIsComparedWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		steps         []step
		missing, left []uint64
	}{
		"found":                         {steps: []step{{"grant", []uint64{1, 2}}, {"begin", nil}, {"found", []uint64{1, 2}}}},
		"missing":                       {steps: []step{{"grant", []uint64{1, 2}}, {"begin", nil}, {"found", []uint64{1}}}, missing: []uint64{2}},
		"missing, found before":         {steps: []step{{"grant", []uint64{1}}, {"begin", nil}, {"found", []uint64{1}}, {"end", nil}, {"begin", nil}}, missing: []uint64{1}},
		"granted during it":             {steps: []step{{"begin", nil}, {"grant", []uint64{1}}}},
		"granted during it, and found":  {steps: []step{{"begin", nil}, {"send", []uint64{1}}, {"found", []uint64{1}}, {"answer", []uint64{1}}}},
		"granted before, found unknown": {steps: []step{{"send", []uint64{1}}, {"begin", nil}, {"found", []uint64{1}}}},
		"withdrawn during it":           {steps: []step{{"grant", []uint64{1}}, {"begin", nil}, {"leave", []uint64{1}}}},
		"withdrawn during it, found":    {steps: []step{{"grant", []uint64{1}}, {"begin", nil}, {"leave", []uint64{1}}, {"drop", []uint64{1}}, {"found", []uint64{1}}}},
		"left over":                     {steps: []step{{"grant", []uint64{1}}, {"leave", []uint64{1}}, {"drop", []uint64{1}}, {"begin", nil}, {"found", []uint64{1}}}, left: []uint64{1}},
		"withdrawal under way":          {steps: []step{{"grant", []uint64{1}}, {"leave", []uint64{1}}, {"begin", nil}, {"found", []uint64{1}}}},
		"confirmed after a resume":      {steps: []step{{"grant", []uint64{3}}, {"confirm", []uint64{5}}, {"grant", []uint64{6}}, {"begin", nil}, {"found", []uint64{3, 5, 6}}}},
		"confirmed, then missing":       {steps: []step{{"confirm", []uint64{5}}, {"begin", nil}, {"found", nil}}, missing: []uint64{5}},
		"of before it was resumed":      {steps: []step{{"grant", []uint64{5}}, {"begin", nil}, {"found", []uint64{3, 5, 9}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c claims
			var round uint64
			var left []uint64
			for _, s := range tt.steps {
				switch s.do {
				case "begin":
					round = c.begin()
				case "end":
					c.end()
				case "found":
					left = append(left, c.found(round, s.seqs)...)
				}
				for _, seq := range s.seqs {
					switch s.do {
					case "grant":
						c.send(seq, "x")
						c.answered(seq, grant, nil, time.Now(), false)
					case "confirm":
						c.confirm(seq, "x", time.Time{})
					case "send":
						c.send(seq, "x")
					case "answer":
						c.answered(seq, grant, nil, time.Now(), false)
					case "leave":
						c.leave(seq)
					case "drop":
						c.drop(seq)
					}
				}
			}
			missing, _ := c.missing(round, nil)
			if !slices.Equal(missing, tt.missing) || !slices.Equal(left, tt.left) {
				t.Errorf("missing are %v, want %v; left over are %v, want %v", missing, tt.missing, left, tt.left)
			}
		})
	}
}

// TestClaimsThatAreNotOnTheServerAreDropped: a process that polls for years must not grow.
func TestClaimsThatAreNotOnTheServerAreDropped(t *testing.T) {
	t.Parallel()
	var c claims
	answer := func(seq uint64, out driver.Outcome, err error) {
		c.send(seq, "x")
		c.answered(seq, out, err, time.Now(), false)
	}
	answer(1, busy, nil)
	answer(2, driver.Outcome{}, driver.ErrUnavailable)
	answer(3, driver.Outcome{}, driver.ErrUnknown)
	answer(3, busy, nil) // the first attempt may still arrive
	answer(4, grant, nil)
	if len(c.known) != 2 || c.known[3] == nil || c.known[4] == nil {
		t.Errorf("known are %v", c.known)
	}
	if holds, doubted := c.leave(3); holds || !doubted {
		t.Errorf("an attempt that may arrive: holds %v, doubted %v", holds, doubted)
	}
	if holds, doubted := c.leave(4); !holds || doubted {
		t.Errorf("a grant: holds %v, doubted %v", holds, doubted)
	}
}

// TestGrantWithMaxHoldIsNotMissingAfterItsEnd: the server removes it at its end.
func TestGrantWithMaxHoldIsNotMissingAfterItsEnd(t *testing.T) {
	t.Parallel()
	var c claims
	for seq, remaining := range []time.Duration{0, time.Hour} {
		c.send(uint64(seq), "x")
		c.answered(uint64(seq), driver.Outcome{State: driver.Granted, Remaining: remaining}, nil, time.Now(), true)
	}
	if missing, _ := c.missing(c.begin(), nil); !slices.Equal(missing, []uint64{1}) {
		t.Errorf("missing are %v, want the one whose MaxHold is not over", missing)
	}
}

// TestPagesOfARenewal: each has at most so many claims, and together they are all.
func TestPagesOfARenewal(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, 10: 0, 11: 1, 20: 1, 21: 2} {
		var c claims
		for seq := range uint64(n) {
			c.send(seq*3, "x")
			c.answered(seq*3, grant, nil, time.Now(), false)
		}
		ends := c.pages(10)
		if len(ends) != want || !slices.IsSorted(ends) || want > 0 && ends[0] != 27 {
			t.Errorf("%d claims in pages of 10 end at %v", n, ends)
		}
	}
}
