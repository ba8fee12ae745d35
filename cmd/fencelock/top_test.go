// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// lockAt is a lock with one holder.
func lockAt(name string, age, ends time.Duration, waiting int) fencelock.Status {
	st := fencelock.Status{Name: name, Waiting: waiting, Holders: []fencelock.Holder{{
		Age: age, EndsIn: ends, Record: fencelock.Record{Owner: "ann@host:1", Reason: "a reason that is longer than what fits into a line of a terminal"}}}}
	for i := range waiting {
		st.Waiters = append(st.Waiters, fencelock.Waiter{Age: time.Duration(i+1) * time.Second})
	}
	return st
}

func names(s *topScreen) string {
	var list []string
	for _, st := range s.locks {
		list = append(list, st.Name)
	}
	return strings.Join(list, " ")
}

func TestTopOrders(t *testing.T) {
	s := &topScreen{width: 100, height: 20}
	s.took([]fencelock.Status{lockAt("old", time.Hour, 12*time.Second, 0), lockAt("busy", time.Minute, 13*time.Second, 3),
		lockAt("ending", time.Second, time.Second, 0)}, nil, time.Now())
	for key, want := range map[string]string{"c": "busy old ending", "a": "old busy ending", "e": "ending old busy"} {
		s.press(key)
		if names(s) != want {
			t.Errorf("%s: got %s, want %s", key, names(s), want)
		}
	}
}

// TestTopShowsAGracePeriod although no lock is listed after a data loss.
func TestTopShowsAGracePeriod(t *testing.T) {
	store := memstore.New(&memstore.Options{Grace: true, MaxTTL: 20 * time.Second})
	client, err := fencelock.New(store, nil)
	must.OK(t, err)
	defer client.Close(t.Context())
	store.Reset()
	m := &topModel{ctx: t.Context(), client: client, topScreen: topScreen{width: 100, height: 20}}
	m.Update(m.poll())
	if !strings.Contains(m.render(), "; no new locks for ") {
		t.Errorf("got %s", m.render())
	}
}

// TestTopFits: at every size no line is wider than the terminal and there are not
// more lines than rows, whatever is shown.
func TestTopFits(t *testing.T) {
	var locks []fencelock.Status
	for i := range 200 {
		locks = append(locks, lockAt(fmt.Sprintf("orders/%d/with-a-rather-long-name-that-goes-on", i), time.Duration(i)*time.Minute, time.Second, i%3))
	}
	for i := range 20 { // letters that are two columns wide, and none
		st := lockAt(strings.Repeat("請求書", 12)+fmt.Sprint(i), 1000*time.Hour, time.Second, i%3)
		st.Holders[0].Record.Owner, st.Holders[0].Record.Reason = strings.Repeat("山田", 9)+"@ホスト:1", strings.Repeat("夜間バッチ、e\u0301", 10)
		locks = append(locks, st)
	}
	for _, size := range [][2]int{{40, 8}, {60, 12}, {80, 24}, {120, 50}} {
		s := &topScreen{server: "redis", every: time.Second, width: size[0], height: size[1]}
		for _, step := range []func(){
			func() {},
			func() { s.took(locks, nil, time.Now()) },
			func() { s.press("down"); s.press("down") },
			func() { s.press("enter") },
			func() { s.press("esc"); s.press("p") },
			func() {
				s.took(nil, errors.New("a long story about a server that does not answer any more "+strings.Repeat("x", 200)), time.Now())
			},
			func() { s.took(nil, nil, time.Now()) },
		} {
			step()
			out := s.render()
			lines := strings.Split(out, "\n")
			if len(lines) > max(size[1], 7) {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, line := range lines {
				if w := lipgloss.Width(line); w > size[0] {
					t.Errorf("%v: a line of %d: %s", size, w, plainText(line))
				}
			}
		}
	}
}

func plainText(s string) string { return lipgloss.NewStyle().Render(s) }

// TestTopFollowsTheCursor: the chosen lock stays on the screen.
func TestTopFollowsTheCursor(t *testing.T) {
	var locks []fencelock.Status
	for i := range 100 {
		locks = append(locks, lockAt(fmt.Sprintf("lock-%03d", i), time.Minute, 10*time.Second, 0))
	}
	s := &topScreen{width: 100, height: 12}
	s.took(locks, nil, time.Now())
	for range 70 {
		s.press("down")
	}
	if !strings.Contains(s.render(), s.chosen) || s.chosen != "lock-069" {
		t.Errorf("%s is not shown:\n%s", s.chosen, s.render())
	}
	s.took(locks[:10], nil, time.Now())
	s.press("enter")
	if !strings.Contains(s.render(), "lock-069 is free now") {
		t.Error(s.render())
	}
	if !s.press("q") {
		t.Error("q does not quit")
	}
}

// TestTopReportsWhatIsCut: a lock with a line that is longer than the terminal does not look
// like one with a short line.
func TestTopReportsWhatIsCut(t *testing.T) {
	s := &topScreen{width: 100, height: 20}
	s.took([]fencelock.Status{lockAt("a", time.Minute, 10*time.Second, 30)}, nil, time.Now())
	s.press("down")
	s.press("enter")
	if out := s.render(); !strings.Contains(out, "more lines") {
		t.Error(out)
	}
}

// TestTopSeesTrouble: a holder that does not renew is shown as such, whatever its
// TTL, and one whose TTL is short is not.
func TestTopSeesTrouble(t *testing.T) {
	s := &topScreen{width: 100, height: 20}
	troubled := func(ends time.Duration) bool {
		st := lockAt("a", time.Minute, ends, 0)
		s.took([]fencelock.Status{st}, nil, time.Now())
		return s.troubled(&st)
	}
	for _, step := range []struct {
		ends time.Duration
		want bool
	}{{2 * time.Second, false}, {3 * time.Second, false}, {1600 * time.Millisecond, false}, {1400 * time.Millisecond, true}, {3 * time.Second, false}} {
		if got := troubled(step.ends); got != step.want {
			t.Errorf("ends in %v: troubled is %v", step.ends, got)
		}
	}
}
