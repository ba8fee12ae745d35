// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// floored attempts a claim on Redis alone, perhaps with a floor, and returns its token.
func (w *world) floored(i int, c driver.Claim, want driver.State) driver.Token {
	w.t.Helper()
	if c.Terms == nil {
		c.Terms = &driver.Terms{Weight: 1, Record: &driver.Record{}}
	}
	out, err := w.procs[i].real.Attempt(w.ctx, &c)
	if err != nil || out.State != want {
		w.differ("attempt %d %q floor %v: %v, %v, want %v", c.Seq, c.Name, c.Floor, out.State, err, want)
	}
	return out.Token
}

// fails tries a claim and withdraws another, by scripts, and compares the errors.
func (w *world) fails(what string, i int, seq uint64, name string, want error) {
	w.t.Helper()
	s := w.procs[i].real
	for i, queue := range []bool{false, true} {
		claim := &driver.Claim{Seq: seq + 1 + uint64(i), Name: "d", Queue: queue, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		if _, err := s.Attempt(w.ctx, claim); !errors.Is(err, want) {
			w.differ("an attempt %s: %v", what, err)
		}
	}
	if _, err := s.Withdraw(w.ctx, driver.Withdrawal{Seq: seq, Name: name}); w.scripted && !errors.Is(err, want) {
		w.differ("a withdrawal %s: %v", what, err)
	}
}

// ruleScenes change the data on the server, as rawScenes do, or have a part that the model does not
// compare: the floors of votes, and the order of the queue in the list.
var ruleScenes = []scene{
	{name: "no marker", play: func(w *world) {
		w.openAll()
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.must(w.p.plain.HDel(w.ctx, w.bucket(), "m").Err())
		w.fails("without a marker", 0, 200, "a", driver.ErrReset)
	}},
	{name: "no session", play: func(w *world) {
		w.openAll()
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.must(w.p.plain.HDel(w.ctx, w.bucket(), "s"+string(w.procs[0].id[:])).Err())
		w.fails("without a session", 0, 200, "a", driver.ErrGone)
	}},
	{name: "another run, handoff", play: func(w *world) {
		w.openAll()
		w.only(w.procs[0].real, 205, "a", true, driver.Granted)
		w.only(w.procs[1].real, 205, "a", true, driver.Queued)
		w.p.now = w.p.now.Add(lossTakes) // an incarnation is named by its time
		w.must(w.p.restart(w.ctx))
		if _, err := w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 205, Name: "a"}); w.scripted {
			w.isReset("a withdrawal", err)
		}
	}},
	{name: "holder not reclaimed", play: func(w *world) {
		w.open(0, 2*time.Second)
		w.ask(0, 1, "a", plainTerms)
		w.lose("restart", false)
		w.open(1, 2*time.Second)
		if _, err := w.procs[0].real.Reclaim(w.ctx, nil, true); err != nil {
			w.differ("reclaim: %v", err)
		}
		w.only(w.procs[1].real, 210, "a", false, driver.Granted)
	}},
	{name: "a ticket alone", play: func(w *world) {
		w.openAll()
		key, _ := w.list("a")
		w.must(w.p.plain.RPush(w.ctx, key, "7").Err())
		w.only(w.procs[1].real, 211, "a", false, driver.Granted)
	}},
	{name: "polls keep their places", play: func(w *world) {
		w.openAll()
		w.only(w.procs[0].real, 215, "a", true, driver.Granted)
		w.only(w.procs[1].real, 215, "a", true, driver.Queued)
		w.only(w.procs[2].real, 215, "a", true, driver.Queued)
		long := driver.Claim{Seq: 216, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, MinHold: time.Second, Record: &driver.Record{}}}
		w.floored(2, long, driver.Queued)
		_, before := w.list("a")
		if out := w.only(w.procs[1].real, 215, "a", true, driver.Queued); out.Position != 0 {
			w.differ("the first in the queue has %d before it", out.Position)
		}
		if out := w.only(w.procs[2].real, 215, "a", true, driver.Queued); out.Position != 1 {
			w.differ("the second in the queue has %d before it", out.Position)
		}
		w.floored(2, long, driver.Queued)
		if _, after := w.list("a"); strings.Join(after, "\n") != strings.Join(before, "\n") {
			w.differ("polls have changed the list from %q to %q", before, after)
		}
	}},
	{name: "handoff", play: func(w *world) {
		w.quick = true
		w.open(0, 400*time.Millisecond)
		w.open(1, 2*time.Second)
		w.open(2, 2*time.Second)
		for _, i := range []int{1, 0, 2} {
			w.only(w.procs[i].real, 230, "a", true, []driver.State{driver.Queued, driver.Granted, driver.Queued}[i])
		}
		w.elapse(500 * time.Millisecond) // the session of the next ends
		w.release(1, 230, "a")
		if _, a := w.list("a"); len(a) != 2 || a[1][0] != 'G' || a[1][7:23] != string(w.procs[2].id[:]) {
			w.differ("after the release the list is %q", a)
		}
	}},
	{name: "handoff, plain", play: func(w *world) {
		w.openAll()
		w.only(w.procs[0].real, 231, "a", true, driver.Granted)
		w.only(w.procs[1].real, 231, "a", true, driver.Queued)
		w.release(0, 231, "a")
		if _, a := w.list("a"); len(a) != 2 || a[1][0] != 'G' {
			w.differ("after the release the list is %q", a)
		}
	}},
	{name: "tombstones stay", play: func(w *world) {
		w.openAll()
		token := w.only(w.procs[0].real, 235, "a", true, driver.Granted).Token
		if _, err := w.real.Break(w.ctx, "a", token+driver.TokenStep); !errors.Is(err, driver.ErrNotHeld) {
			w.differ("break of another token: %v", err)
		}
		if _, err := w.real.Break(w.ctx, "a", token); err != nil {
			w.differ("break: %v", err)
		}
		w.tombstone(0, 235, "a")
		w.tombstone(0, 236, "a")
		for seq := uint64(235); seq < 237; seq++ {
			if _, err := w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: seq, Name: "a"}); err != nil {
				w.differ("withdraw %d: %v", seq, err)
			}
			w.only(w.procs[0].real, seq, "a", true, driver.Absent)
		}
	}},
	{name: "kept for less", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", driver.Terms{MinHold: 3*time.Second + holdExtra})
		w.withdrawal(0, driver.Withdrawal{Seq: 101, Name: "a", KeepFor: 500*time.Millisecond + holdExtra})
	}},
	{name: "plain keep-alives", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.force("a")
		w.elapse(tick) // or the end is not moved, and a script decides
		w.keepAlive(0)
		id := string(w.procs[1].id[:])
		w.must(w.p.plain.ZRem(w.ctx, w.bucket()+":s", id).Err())
		w.elapse(tick)
		w.keepAlive(1)
		w.must(w.p.plain.ZScore(w.ctx, w.bucket()+":s", id).Err())
	}},
	{name: "plain keep-alives, another run", play: func(w *world) {
		w.openAll()
		w.elapse(tick)
		w.must(w.p.restart(w.ctx))
		_, err := w.procs[0].real.KeepAlive(w.ctx)
		w.isReset("a keep-alive", err)
	}},
	{name: "floor, first", play: func(w *world) {
		w.openAll()
		floor := w.only(w.procs[0].real, 240, "a", true, driver.Granted).Token + 50*driver.TokenStep
		if token := w.floored(0, driver.Claim{Seq: 241, Name: "b", Queue: true, Floor: floor}, driver.Granted); token < floor {
			w.differ("token %v below the floor %v", token, floor)
		}
	}},
	{name: "floor, handoff", play: func(w *world) {
		w.openAll()
		first := w.only(w.procs[0].real, 220, "a", true, driver.Granted).Token
		w.only(w.procs[1].real, 220, "a", true, driver.Queued)
		floor := first + 50*driver.TokenStep
		w.floored(2, driver.Claim{Seq: 220, Name: "a", Queue: true, Floor: floor}, driver.Queued)
		w.release(0, 220, "a")
		w.holds("a", w.procs[1].id, floor-1)
	}},
	{name: "lift", play: func(w *world) {
		w.openAll()
		first := w.only(w.procs[0].real, 225, "a", true, driver.Granted).Token
		floor := first + 50*driver.TokenStep
		if same := w.floored(0, driver.Claim{Seq: 225, Name: "a", Queue: true, Floor: floor}, driver.Granted); same != first {
			w.differ("without a lift the token is %v, and was %v", same, first)
		}
		lifted := w.floored(0, driver.Claim{Seq: 225, Name: "a", Queue: true, Floor: floor, Lift: true}, driver.Granted)
		w.holds("a", w.procs[0].id, floor-1)
		if same := w.floored(0, driver.Claim{Seq: 225, Name: "a", Queue: true, Floor: floor, Lift: true}, driver.Granted); same != lifted {
			w.differ("lifted twice, from %v to %v", lifted, same)
		}
		terms := &driver.Terms{Weight: 1, Reentry: "r", Record: &driver.Record{}}
		for i := range 2 {
			w.floored(i, driver.Claim{Seq: 226, Name: "b", Queue: true, Terms: terms}, driver.Granted)
		}
		lifted = w.floored(0, driver.Claim{Seq: 226, Name: "b", Queue: true, Floor: floor, Lift: true, Terms: terms}, driver.Granted)
		st, err := w.real.Inspect(w.ctx, "b")
		w.must(err)
		if len(st.Holders) != 2 || st.Holders[0].Token != lifted || st.Holders[1].Token != lifted {
			w.differ("after a lift to %v the holders are %+v", lifted, st.Holders)
		}
	}},
	{name: "re-entry, from behind", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "a", reentrant("r"))
		w.leave(0, 1, "a")
		w.ask(2, 1, "a", reentrant("r"))
	}},
	{name: "re-entry, released", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", reentrant("r"))
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", reentrant("r"))
		w.ask(2, 1, "a", reentrant("r"))
		w.leave(1, 1, "a")
		w.ask(0, 2, "a", plainTerms)
		w.leave(2, 1, "a")
		w.ask(0, 3, "b", reentrant("r"))
		w.leave(1, 3, "b")
		w.leave(0, 4, "b")
		w.ask(2, 3, "b", plainTerms)
		w.ask(0, 5, "c", driver.Terms{Reentry: "r", MinHold: 500*time.Millisecond + holdExtra})
		w.leave(0, 5, "c")
		w.ask(1, 5, "c", plainTerms)
		w.ask(0, 6, "d", driver.Terms{Reentry: "r", MaxHold: 500*time.Millisecond + holdExtra})
		w.quick = true                   // no step drops the grant before its release
		w.elapse(700 * time.Millisecond) // the check of the marker still counts
		w.leave(0, 6, "d")
	}},
	{name: "re-entry, not reclaimed", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", reentrant("r"))
		w.lose("restart", true)
		w.reclaim(0, nil, true)
		w.leave(0, 1, "a")
	}},
}
