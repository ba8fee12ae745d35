// SPDX-License-Identifier: Apache-2.0

package lockview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// polled reads "name holder+holder kept? < waiter waiter"; a holder's token is the
// number of its claim.
func polled(name, holders, waiters string) fencelock.Status {
	st := fencelock.Status{Name: name}
	for _, who := range strings.Fields(holders) {
		who, kept := strings.CutSuffix(who, "~")
		st.Holders = append(st.Holders, fencelock.Holder{Claim: claim(who), Token: fencelock.Token(len(who)), Kept: kept, Record: fencelock.Record{Owner: who}})
	}
	for _, who := range strings.Fields(waiters) {
		st.Waiters = append(st.Waiters, fencelock.Waiter{Claim: claim(who), Record: fencelock.Record{Owner: who}})
	}
	st.Waiting = len(st.Waiters)
	return st
}

func claim(who string) driver.ClaimID {
	var id driver.ClaimID
	copy(id.Session[:], who)
	return id
}

func TestChanges(t *testing.T) {
	type locks = []fencelock.Status
	for name, tt := range map[string]struct {
		before, after locks
		want          string
	}{
		"nothing":   {locks{polled("a", "p", "q")}, locks{polled("a", "p", "q")}, ""},
		"came":      {nil, locks{polled("a", "p", "q")}, "held a p, waiting a q"},
		"went":      {locks{polled("a", "p", "")}, nil, "ended a p"},
		"handed on": {locks{polled("a", "p", "q")}, locks{polled("a", "q", "")}, "ended a p, held a q"},
		"gave up":   {locks{polled("a", "p", "q")}, locks{polled("a", "p", "")}, "left a q"},
		"kept":      {locks{polled("a", "p", "")}, locks{polled("a", "p~", "")}, "ended a p, kept a p"},
		"no longer": {locks{polled("a", "p~", "")}, nil, ""},
		"two locks": {locks{polled("b", "p", "")}, locks{polled("a", "q", "")}, "held a q, ended b p"},
		"readers":   {locks{polled("a", "p q", "")}, locks{polled("a", "q r", "")}, "ended a p, held a r"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Changes(tt.before, tt.after) {
				got = append(got, fmt.Sprintf("%s %s %s", e.Kind, e.Lock, e.Owner))
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// TestLongLine: of a queue longer than the store reports, comings and goings are not
// guessed.
func TestLongLine(t *testing.T) {
	before, after := polled("a", "p", "q r"), polled("a", "p", "q s")
	before.Waiting, after.Waiting = 500, 500
	if got := Changes([]fencelock.Status{before}, []fencelock.Status{after}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestManyHolders: of more holders than the store shows, comings and goings are not guessed either.
func TestManyHolders(t *testing.T) {
	before, after := polled("a", "p q", ""), polled("a", "p r", "")
	before.MoreHolders, after.MoreHolders = 500, 500
	if got := Changes([]fencelock.Status{before}, []fencelock.Status{after}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}
