// SPDX-License-Identifier: Apache-2.0

package change

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// lock reads "name holder+holder kept? < waiter waiter"; a holder's token is the
// number of its claim.
func lock(name, holders, waiters string) fencelock.Status {
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

func TestBetween(t *testing.T) {
	type locks = []fencelock.Status
	for name, tt := range map[string]struct {
		before, after locks
		want          string
	}{
		"nothing":   {locks{lock("a", "p", "q")}, locks{lock("a", "p", "q")}, ""},
		"came":      {nil, locks{lock("a", "p", "q")}, "held a p, waiting a q"},
		"went":      {locks{lock("a", "p", "")}, nil, "ended a p"},
		"handed on": {locks{lock("a", "p", "q")}, locks{lock("a", "q", "")}, "ended a p, held a q"},
		"gave up":   {locks{lock("a", "p", "q")}, locks{lock("a", "p", "")}, "left a q"},
		"kept":      {locks{lock("a", "p", "")}, locks{lock("a", "p~", "")}, "ended a p, kept a p"},
		"no longer": {locks{lock("a", "p~", "")}, nil, ""},
		"two locks": {locks{lock("b", "p", "")}, locks{lock("a", "q", "")}, "held a q, ended b p"},
		"readers":   {locks{lock("a", "p q", "")}, locks{lock("a", "q r", "")}, "ended a p, held a r"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Between(tt.before, tt.after) {
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
	before, after := lock("a", "p", "q r"), lock("a", "p", "q s")
	before.Waiting, after.Waiting = 500, 500
	if got := Between([]fencelock.Status{before}, []fencelock.Status{after}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestManyHolders: of more holders than the store shows, comings and goings are not guessed either.
func TestManyHolders(t *testing.T) {
	before, after := lock("a", "p q", ""), lock("a", "p r", "")
	before.MoreHolders, after.MoreHolders = 500, 500
	if got := Between([]fencelock.Status{before}, []fencelock.Status{after}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}
