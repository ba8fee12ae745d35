// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// script reads a history of one lock in short: each line is milliseconds, kind,
// client, and for some kinds token and deadline.
type script struct{ events []history.Event }

func (s *script) at(ms int64, kind history.Kind, who string, more ...func(*history.Event)) *script {
	e := history.Event{At: ms * 1e6, Kind: kind, Who: who, Lock: "l0"}
	if kind == history.Fault || kind == history.Healed || kind == history.Killed {
		e.Lock = ""
	}
	for _, m := range more {
		m(&e)
	}
	s.events = append(s.events, e)
	return s
}

func token(n, until int64) func(*history.Event) {
	return func(e *history.Event) { e.Token, e.Until = n, until*1e6 }
}
func text(t string) func(*history.Event) { return func(e *history.Event) { e.Text = t } }
func reg(kind string, n int64, value string, list ...string) func(*history.Event) {
	return func(e *history.Event) { e.Register, e.Token, e.Value, e.List = kind, n, value, list }
}

var limits = Limits{Stuck: 5 * time.Second, Starve: 8 * time.Second, Wake: time.Second, Notified: 100 * time.Millisecond, Late: 20 * time.Millisecond, Overtake: 100 * time.Millisecond}

// turn is an acquisition without any trouble.
func (s *script) turn(ms int64, who string, tok int64) *script {
	return s.at(ms, history.Ask, who).at(ms+1, history.Grant, who, token(tok, ms+1000)).
		at(ms+10, history.Release, who, token(tok, ms+1000)).at(ms+11, history.Released, who)
}

func TestGoodHistory(t *testing.T) {
	s := (&script{}).turn(0, "a", 1).turn(20, "b", 2)
	s.at(40, history.Ask, "a").at(41, history.Grant, "a", token(3, 1041))
	s.at(42, history.Enter, "a", reg(history.Fenced, 3, "")).at(43, history.Write, "a", reg(history.Fenced, 3, "x"))
	s.at(44, history.Admit, "a", reg(history.Fenced, 3, "x", "x")).at(45, history.Wrote, "a", reg(history.Fenced, 3, "x"))
	s.at(46, history.Ask, "b").at(50, history.Fault, "", text("stop")).at(60, history.Healed, "", text("stop"))
	s.at(900, history.Lost, "a", token(3, 1041)).at(901, history.Release, "a", token(3, 1041)).at(902, history.Released, "a", text("lost"))
	s.at(1100, history.Grant, "b", token(4, 2100)).at(1101, history.Release, "b", token(4, 2100)).at(1102, history.Released, "b")
	s.at(1200, history.Final, "", reg(history.Fenced, 0, "", "x"))
	for _, v := range Run(s.events, limits) {
		t.Errorf("nothing is wrong, but %s", v)
	}
}

// TestRefusalIsOfItsOwnLock: where tokens are counted for each lock, a client has the same number of two locks. That the
// guard of one refused it says nothing about the other, and must not be looked up there.
func TestRefusalIsOfItsOwnLock(t *testing.T) {
	other := func(e *history.Event) { e.Lock = "l1" }
	elsewhere := func(refused ...func(*history.Event)) []history.Event {
		return (&script{}).at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 100)).
			at(200, history.Lost, "a", token(1, 100)).at(201, history.Release, "a", token(1, 100)).
			at(202, history.Ask, "a", other).at(203, history.Grant, "a", token(1, 1000), other).
			at(205, history.Refused, "a", append(refused, reg(history.Fenced, 1, "x"))...).
			at(210, history.Release, "a", token(1, 1000), other).events
	}
	for _, v := range Run(elsewhere(), limits) {
		if v.Check == "D3" {
			t.Errorf("the refusal was of a lock that was lost, but %s", v)
		}
	}
	if vs := Run(elsewhere(other), limits); !slices.ContainsFunc(vs, func(v Violation) bool { return v.Check == "D3" }) {
		t.Errorf("a holder was refused in its trusted time, and no D3 among %v", vs)
	}
}

// TestLingeringLockAfterALoss: a lock that lingers is taken again without asking the store. That another client has been
// granted a greater token meanwhile is a second holder, which the resource can tell; an older token from the store is more.
func TestLingeringLockAfterALoss(t *testing.T) {
	idle := func(e *history.Event) { e.Idle = true }
	for again, want := range map[int64]Property{2: T, 3: F} {
		s := (&script{}).at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).
			at(2, history.Release, "a", token(1, 1000)).at(3, history.Released, "a", token(1, 0), idle).
			at(4, history.Ask, "b").at(5, history.Grant, "b", token(9, 1000)).at(6, history.Release, "b", token(9, 1000)).
			at(7, history.Ask, "a").at(8, history.Grant, "a", token(again, 1000)).at(9, history.Release, "a", token(again, 1000))
		var got []Property
		for _, v := range Run(s.events, limits) {
			if v.Check == "D2" {
				got = append(got, v.Property)
			}
		}
		if !slices.Equal(got, []Property{want}) {
			t.Errorf("a has token %d after 1, and b has 9: D2 is %v, want %v", again, got, want)
		}
	}
}

// TestBadHistories: each is wrong in one way, and the checker for it says so.
func TestBadHistories(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		s          *script
	}{
		{"token twice", "D1 (F): b with token 1 of l0: a had that token before", (&script{}).turn(0, "a", 1).turn(20, "b", 1)},
		{"token falls", "D2 (F): b with token 1 of l0 asked after a", (&script{}).turn(0, "a", 2).turn(20, "b", 1)},
		{"two holders", "D3 (T): b with token 2 of l0 was granted while a trusted l0 for another 8ms", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).
			at(1, history.Ask, "b").at(2, history.Grant, "b", token(2, 1000)).
			at(10, history.Release, "a", token(1, 1000)).at(11, history.Release, "b", token(2, 1000))},
		{"two holders, until one is killed", "D3 (T): b with token 2 of l0 was granted while a trusted l0 for another 500ms", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(1, history.Ask, "b").
			at(1500, history.Grant, "b", token(2, 2500)).at(2000, history.Fault, "a", text("kill a")).at(2000, history.Killed, "a").
			at(2001, history.Healed, "", text("kill a")).at(2010, history.Release, "b", token(2, 2500))},
		{"refused in its own time", "D3 (T): a with token 1 of l0 was refused by the guard", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).
			at(5, history.Refused, "a", reg(history.Fenced, 1, "x")).at(10, history.Release, "a", token(1, 1000))},
		{"old token let in", "D4 (F): the resource of l0 let in token 1 of a after 2 of b", (&script{}).
			at(1, history.Enter, "b", reg(history.Fenced, 2, "")).at(2, history.Enter, "a", reg(history.Fenced, 1, ""))},
		{"one token, two clients", "D4 (F): the resource of l0 let in token 2 of both b and a", (&script{}).
			at(1, history.Enter, "b", reg(history.Fenced, 2, "")).at(2, history.Enter, "a", reg(history.Fenced, 2, ""))},
		{"overwritten", "D5 (F): b wrote y to the fenced register of l0 from an old reading", (&script{}).
			at(1, history.Admit, "a", reg(history.Fenced, 1, "x", "x")).at(2, history.Admit, "b", reg(history.Fenced, 2, "y", "y"))},
		{"acknowledged and gone", "D5 (U): x of a was acknowledged by the unfenced register of l0 and is there 0 times", (&script{}).
			at(2, history.Wrote, "a", reg(history.Unfenced, 0, "x")).at(3, history.Final, "", reg(history.Unfenced, 0, "", "y"))},
		{"stuck after a kill", "D6 (L): l0 was free and not granted for 5.2s, while [b] waited", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(2, history.Ask, "b").
			at(3, history.Fault, "a", text("kill")).at(4, history.Killed, "a").at(5, history.Healed, "", text("kill")).
			at(5205, history.End, "b")},
		{"wake-up lost", "D6 (W): l0 was released and not granted for 1.489s, while [b] waited", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(2, history.Ask, "b").
			at(10, history.Release, "a", token(1, 1000)).at(11, history.Released, "a").
			at(1500, history.Grant, "b", token(2, 2500))},
		{"starved", "D6 (L): b waited for l0 for 8.998s, with no fault since", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 9000)).at(2, history.Ask, "b").at(9000, history.End, "b")},
		{"never notified", "D7 (N): a with token 1 of l0 went on for 500ms after its deadline", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(1500, history.Release, "a", token(1, 1000))},
		{"notified too late", "D7 (N): a with token 1 of l0 was notified 50ms after b had been granted l0", (&script{}).
			at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 900)).at(2, history.Ask, "b").
			at(910, history.Grant, "b", token(2, 2000)).at(960, history.Lost, "a", token(1, 900))},
		{"overtaken", "D8 (O): c was granted l0, and b had asked 200ms earlier", (&script{}).
			at(0, history.Ask, "b").at(200, history.Ask, "c").at(201, history.Grant, "c", token(1, 1000)).
			at(202, history.Release, "c", token(1, 1000)).at(203, history.Released, "c").at(204, history.Grant, "b", token(2, 1000))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			vs := Run(tt.s.events, limits)
			if len(vs) != 1 || !strings.HasPrefix(vs[0].String(), tt.want) {
				t.Errorf("got %v, want one: %s", vs, tt.want)
			}
		})
	}
}

// TestExcuses: what looks wrong and is not.
func TestExcuses(t *testing.T) {
	stopped := (&script{}).at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(2, history.Ask, "b").
		at(10, history.Fault, "a", text("stop a")).at(1100, history.Grant, "b", token(2, 2100)).
		at(1500, history.Healed, "", text("stop a"), token(0, 3500)).at(1501, history.Lost, "a", token(1, 1000)).
		at(1502, history.Release, "a", token(1, 1000)).at(1510, history.Release, "b", token(2, 2100))
	down := (&script{}).at(0, history.Ask, "a").at(1, history.Fault, "", text("kill server")).
		at(20000, history.Healed, "", text("kill server")).at(24000, history.Grant, "a", token(1, 25000))
	expired := (&script{}).at(0, history.Ask, "a").at(1, history.Ask, "b").at(2, history.Fault, "a", text("stop a")).
		at(1200, history.Grant, "b", token(2, 2200)).at(1500, history.Healed, "", text("stop a"), token(0, 3500)).
		at(1501, history.Grant, "a", token(1, 900)).at(1502, history.Lost, "a", token(1, 900)).
		at(1503, history.Release, "a", token(1, 900)).at(1510, history.Release, "b", token(2, 2200))
	killed := (&script{}).at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(2, history.Ask, "b").
		at(10, history.Fault, "a", text("stop a")).at(1100, history.Grant, "b", token(2, 2100)).
		at(1500, history.Healed, "", text("stop a"), token(0, 3500)).at(1500, history.Fault, "a", text("kill a")).
		at(1501, history.Killed, "a").at(1502, history.Healed, "", text("kill a"), token(0, 3500)).at(1510, history.Release, "b", token(2, 2100))
	for name, s := range map[string]*script{"a stopped holder that is then killed trusted no longer": killed, "an acquisition that is over when it returns holds nothing": expired, "a stopped holder cannot be told": stopped, "a server that is down grants nothing": down} {
		if vs := Run(s.events, limits); len(vs) > 0 {
			t.Errorf("%s, but: %v", name, vs)
		}
	}
}

// TestWakeUpAfterAFault: W counts from the end of what a fault excuses, which is at
// once if it excuses nothing.
func TestWakeUpAfterAFault(t *testing.T) {
	for _, tt := range []struct {
		name           string
		excused, grant int64
		want           string
	}{
		{"lost with what carried it", 20, 1500, "D6 (W): l0 was released and not granted for 1.48s, while [b] waited"},
		{"in time", 20, 1000, ""},
		{"lost, beyond the excuse", 2000, 3100, "D6 (W): l0 was released and not granted for 1.1s, while [b] waited"},
		{"a while after the excuse", 2000, 2900, ""},
	} {
		s := (&script{}).at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(2, history.Ask, "b").at(9, history.Fault, "", text("cut")).
			at(10, history.Release, "a", token(1, 1000)).at(11, history.Released, "a").at(20, history.Healed, "", text("cut"), token(0, tt.excused)).
			at(tt.grant, history.Grant, "b", token(2, tt.grant+1000))
		got := ""
		for _, v := range Run(s.events, limits) {
			got += v.String()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestHandoffs: what counts is a grant to one who waited when another one gave the
// lock back, when no fault excuses anything any more.
func TestHandoffs(t *testing.T) {
	before := func() *script {
		return (&script{}).at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(2, history.Ask, "b").at(10, history.Release, "a", token(1, 1000))
	}
	cut := func(s *script, until int64) *script {
		return s.at(12, history.Fault, "", text("cut")).at(13, history.Healed, "", text("cut"), token(0, until))
	}
	for _, tt := range []struct {
		name string
		s    *script
		want int
	}{
		{"handed off", before().at(11, history.Released, "a").at(20, history.Grant, "b", token(2, 1000)), 1},
		{"granted before the answer to the unlock came", before().at(20, history.Grant, "b", token(2, 1000)).at(21, history.Released, "a"), 1},
		{"no client waited", (&script{}).turn(0, "a", 1).turn(20, "b", 2), 0},
		{"the unlock failed", before().at(11, history.Released, "a", text("gone")).at(20, history.Grant, "b", token(2, 1000)), 0},
		{"excused", cut(before().at(11, history.Released, "a"), 500).at(20, history.Grant, "b", token(2, 1000)), 0},
		{"excused no more", cut(before().at(11, history.Released, "a"), 15).at(20, history.Grant, "b", token(2, 1000)), 1},
		{"the holder died", (&script{}).at(0, history.Ask, "a").at(1, history.Grant, "a", token(1, 1000)).at(2, history.Ask, "b").at(3, history.Killed, "a").at(20, history.Grant, "b", token(2, 1000)), 0},
	} {
		if got := Handoffs(tt.s.events); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
