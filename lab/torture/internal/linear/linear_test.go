// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

func ev(at int64, kind history.Kind, who string, more ...int64) history.Event {
	e := history.Event{At: at, Kind: kind, Who: who, Lock: "l"}
	if len(more) > 0 {
		e.Token = more[0]
	}
	if len(more) > 1 {
		e.Until = more[1]
	}
	return e
}

func failed(e history.Event) history.Event {
	e.Text = "no answer"
	return e
}

func idle(e history.Event) history.Event {
	e.Idle = true
	return e
}

// TestCheck: what each history breaks, untimed (F) and timed (T).
func TestCheck(t *testing.T) {
	first := []history.Event{ev(1, history.Ask, "a"), ev(2, history.Grant, "a", 1, 100)}
	second := []history.Event{ev(10, history.Ask, "b"), ev(11, history.Grant, "b", 2, 110)}
	join := func(parts ...[]history.Event) (all []history.Event) {
		for _, p := range parts {
			all = append(all, p...)
		}
		history.Sort(all)
		return all
	}
	for _, tt := range []struct {
		name   string
		events []history.Event
		want   string
	}{
		{"one after the other", join(first, []history.Event{ev(5, history.Release, "a", 1), ev(6, history.Released, "a")}, second), ""},
		{"the second in the trusted time of the first", join(first, second), "T"},
		{"after the deadline", join(first, []history.Event{ev(90, history.Ask, "b"), ev(101, history.Grant, "b", 2, 200)}), ""},
		{"after the first was notified", join(first, []history.Event{ev(8, history.Lost, "a", 1, 100)}, second), ""},
		{"after the first was killed", join(first, []history.Event{ev(8, history.Killed, "a")}, second), ""},
		{"the release had no answer and had its effect", join(first, []history.Event{ev(5, history.Release, "a", 1), failed(ev(6, history.Released, "a"))}, second), ""},
		{"released for certain, but only after the next grant", join(first, second, []history.Event{ev(50, history.Release, "a", 1), ev(60, history.Released, "a")}), "FT"},
		{"released without asking, after the next grant", join(first, second, []history.Event{ev(50, history.Release, "a", 1), idle(ev(60, history.Released, "a"))}), "T"},
		{"locked again without asking", join(first, []history.Event{ev(5, history.Release, "a", 1), idle(ev(6, history.Released, "a")),
			ev(7, history.Ask, "a"), ev(8, history.Grant, "a", 2, 100), ev(9, history.Release, "a", 2), idle(ev(10, history.Released, "a")),
			ev(11, history.Ask, "b"), ev(12, history.Grant, "b", 3, 110)}), ""},
		{"locked again with the same token", join(first, []history.Event{ev(5, history.Release, "a", 1), idle(ev(6, history.Released, "a")),
			ev(7, history.Ask, "a"), ev(8, history.Grant, "a", 1, 100)}), "FT"},
		{"locked again after another client was granted it", join(first, []history.Event{ev(5, history.Release, "a", 1), idle(ev(6, history.Released, "a"))}, second,
			[]history.Event{ev(12, history.Ask, "a"), ev(13, history.Grant, "a", 3, 100)}), "T"},
		{"the token falls", join(first, []history.Event{ev(5, history.Release, "a", 1), ev(6, history.Released, "a"),
			ev(10, history.Ask, "b"), ev(11, history.Grant, "b", 1, 110)}), "FT"},
		{"an acquisition without an answer", join(first, []history.Event{ev(3, history.Ask, "c")}), ""},
		{"no tokens", []history.Event{ev(1, history.Ask, "a"), ev(2, history.Grant, "a", 0, 100), ev(5, history.Release, "a"), ev(6, history.Released, "a"),
			ev(7, history.Ask, "b"), ev(8, history.Grant, "b", 0, 110)}, ""},
	} {
		got := ""
		found, undecided := Check(tt.events)
		if len(undecided) > 0 {
			t.Errorf("%s: %v was not decided", tt.name, undecided)
		}
		for _, f := range found {
			got += string(f.Property)
			if !strings.Contains(string(f.Picture), "<html") {
				t.Errorf("%s: the picture is no page", tt.name)
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestUndecided: a search that had no time is reported, and is not a finding.
func TestUndecided(t *testing.T) {
	var events []history.Event
	for i := range int64(60) { // all at once, and none is given back: many orders to refute
		who := string(rune('A' + i))
		events = append(events, ev(1, history.Ask, who), ev(1000+i, history.Grant, who, 0, 5000))
	}
	found, undecided := search(events, time.Nanosecond)
	if got := strings.Join(undecided, " "); len(found) > 0 || !strings.Contains(got, timed) {
		t.Errorf("got %d findings and %q undecided, want none, and timed", len(found), got)
	}
}
