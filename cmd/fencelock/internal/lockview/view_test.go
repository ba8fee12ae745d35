// SPDX-License-Identifier: Apache-2.0

package lockview

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/graph"
)

// lock has one holder, and one waiter if it is named; x/y is x under the lock of y.
func lock(name, holder, waiter string) fencelock.Status {
	record := func(who string) fencelock.Record {
		var owner, outer string
		_, _ = fmt.Sscanf(who, "%s %s", &owner, &outer)
		r := fencelock.Record{Owner: owner}
		if outer != "" {
			r.Labels = map[string]string{UnderLabel: outer}
		}
		return r
	}
	st := fencelock.Status{Name: name, Holders: []fencelock.Holder{{Record: record(holder)}}}
	if waiter != "" {
		st.Waiters, st.Waiting = []fencelock.Waiter{{Record: record(waiter)}}, 1
	}
	return st
}

// TestBlocking: what is left out changes neither the waits nor the cycles.
func TestBlocking(t *testing.T) {
	locks := []fencelock.Status{lock("a", "p", "q2 q"), lock("b", "q", "p2 p"), lock("c", "r", ""), lock("d", "p", ""), lock("e", "p2 p", "")}
	blocking := Blocking(locks)
	names := ""
	for _, st := range blocking {
		names += st.Name
	}
	if names != "abde" {
		t.Errorf("got %s", names)
	}
	if got, want := fmt.Sprint(graph.New(Parties(blocking)).Cycles()), fmt.Sprint(graph.New(Parties(locks)).Cycles()); got != want || got != "[[{a p} {b q}]]" {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSelection(t *testing.T) {
	st := lock("Orders/1", "Ann@web:1", "bob")
	st.Holders[0].Record.Reason, st.Holders[0].Age = "nightly Import", time.Hour
	for _, tt := range []struct {
		s    Selection
		want bool
	}{
		{Selection{}, true}, {Selection{Prefix: "Orders/"}, true}, {Selection{Prefix: "orders/"}, false}, {Selection{Text: "orders"}, true},
		{Selection{Text: "IMPORT"}, true}, {Selection{Text: "BOB"}, true}, {Selection{Text: "eve"}, false}, {Selection{Owner: "Ann"}, true},
		{Selection{Owner: "ann"}, false}, {Selection{OlderThan: time.Minute}, true}, {Selection{OlderThan: time.Hour}, false}, {Selection{Waited: true, Text: "x"}, false},
	} {
		if got := tt.s.Wants(&st); got != tt.want {
			t.Errorf("%+v: got %v", tt.s, got)
		}
	}
}

// TestOrderIsCalm: locks of nearly the same age do not change places because the store
// listed one of them a moment later.
func TestOrderIsCalm(t *testing.T) {
	for _, order := range Orders {
		a, b := lock("a", "p", ""), lock("b", "p", "")
		a.Holders[0].Age, b.Holders[0].Age = 10*time.Second, 10*time.Second+time.Millisecond
		locks := []fencelock.Status{b, a}
		Sort(locks, order)
		if locks[0].Name != "a" {
			t.Errorf("%s: %s is first", order, locks[0].Name)
		}
	}
}
