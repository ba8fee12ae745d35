// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"time"

	"github.com/fencelock/fencelock/driver"
)

// scene is a short sequence of steps on the store of lists and on the model.
type scene struct {
	name  string
	grace bool
	play  func(w *world)
}

func (w *world) openAll() {
	w.t.Helper()
	for i := range w.procs {
		w.open(i, 2*time.Second)
	}
}

// ask attempts a claim for a lock, waits if it must, and compares all locks.
func (w *world) ask(i int, seq uint64, name string, terms driver.Terms) {
	w.t.Helper()
	w.request(i, &driver.Claim{Seq: seq + 100, Name: name, Terms: &terms, Queue: true})
}

// try is ask for a claim that does not wait.
func (w *world) try(i int, seq uint64, name string, terms driver.Terms) {
	w.t.Helper()
	w.request(i, &driver.Claim{Seq: seq + 100, Name: name, Terms: &terms})
}

// vote is ask for a claim with a floor, a number of steps above the last token.
func (w *world) vote(i int, seq uint64, name string, floor driver.Token, lift bool) {
	w.t.Helper()
	w.request(i, &driver.Claim{Seq: seq + 100, Name: name, Terms: &driver.Terms{}, Queue: true, Floor: floor, Lift: lift})
}

func (w *world) request(i int, c *driver.Claim) {
	w.t.Helper()
	c.Terms.Weight, c.Terms.Record = max(1, c.Terms.Weight), &driver.Record{}
	w.procs[i].claims = append(w.procs[i].claims, c)
	w.attempt(i, c)
	w.compareAll()
}

func (w *world) leave(i int, seq uint64, name string) {
	w.t.Helper()
	w.withdrawal(i, driver.Withdrawal{Seq: seq + 100, Name: name})
}

func (w *world) withdrawal(i int, d driver.Withdrawal) {
	w.t.Helper()
	w.withdraw(i, d)
	w.compareAll()
}

// force breaks the last token of a name.
func (w *world) force(name string) {
	w.t.Helper()
	w.breakToken(name, w.pairs[name][len(w.pairs[name])-1])
	w.compareAll()
}

// gone reclaims everything that was lost, or nothing, and reports that it was all.
func (w *world) gone(i int, all bool) {
	w.t.Helper()
	var chosen []held
	if all {
		chosen = w.procs[i].lost
	}
	w.reclaim(i, chosen, true)
	w.compareAll()
}

// pass keeps some sessions alive while time passes.
func (w *world) pass(d time.Duration, alive ...int) {
	w.t.Helper()
	for ; d > 0; d -= 500 * time.Millisecond {
		for _, i := range alive {
			w.keepAlive(i)
		}
		w.elapse(min(d, 500*time.Millisecond))
	}
}

var (
	plainTerms = driver.Terms{}
	readTerms  = driver.Terms{Mode: driver.Shared}
)

func limited(weight, limit int64) driver.Terms {
	return driver.Terms{Mode: driver.Shared, Weight: weight, Limit: limit}
}

func reentrant(by string) driver.Terms { return driver.Terms{Reentry: by} }

// scenes are what the mutants of scripts are tried in: each step of the store is compared.
var scenes = []scene{
	{name: "queue", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "a", plainTerms)
		w.ask(2, 1, "a", plainTerms)
		w.try(2, 2, "a", plainTerms)
		w.leave(2, 2, "a")
		w.leave(0, 1, "a")
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", plainTerms)
		w.try(0, 2, "a", plainTerms)
		w.leave(2, 1, "a")
		w.leave(1, 1, "a")
		w.try(0, 3, "a", plainTerms)
		w.ask(0, 3, "a", plainTerms)
		w.ask(0, 4, "a", plainTerms)
		w.close(0)
		w.compareAll()
	}},
	{name: "closed", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "b", readTerms)
		w.ask(0, 3, "c", driver.Terms{Mode: driver.Shared, MinHold: 300*time.Millisecond + holdExtra})
		w.ask(1, 1, "d", plainTerms)
		w.ask(0, 4, "d", plainTerms)
		w.ask(1, 2, "b", plainTerms)
		w.ask(2, 1, "d", plainTerms)
		w.withdrawal(0, driver.Withdrawal{Seq: 107, Name: "a", Tombstone: true})
		w.close(0)
		w.compareAll()
		w.elapse(300 * time.Millisecond)
		w.leave(1, 1, "d")
	}},
	{name: "ended sessions", play: func(w *world) {
		w.open(0, 400*time.Millisecond)
		w.open(1, 2*time.Second)
		w.open(2, time.Second)
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "b", readTerms)
		w.ask(1, 1, "b", readTerms)
		w.ask(1, 2, "c", plainTerms)
		w.ask(0, 3, "c", plainTerms)
		w.ask(2, 1, "c", plainTerms)
		w.ask(2, 2, "a", plainTerms)
		w.ask(2, 3, "b", plainTerms)
		w.pass(700*time.Millisecond, 1, 2)
		w.leave(1, 2, "c")
		w.keepAlive(0)
		w.attempt(0, &driver.Claim{Seq: 109, Name: "d", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		w.withdraw(0, driver.Withdrawal{Seq: 109, Name: "d"})
		w.open(0, time.Second)
		w.compareAll()
		w.ask(0, 4, "a", plainTerms)
		w.leave(2, 2, "a")
		w.leave(0, 4, "a")
		w.leave(1, 1, "b")
	}},
	{name: "ended in a hurry", play: func(w *world) {
		w.quick = true
		w.open(0, 400*time.Millisecond)
		w.open(1, 2*time.Second)
		w.open(2, 2*time.Second)
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "b", plainTerms)
		w.ask(0, 2, "b", plainTerms)
		w.ask(1, 2, "c", plainTerms)
		w.ask(0, 3, "c", plainTerms)
		w.ask(2, 1, "c", plainTerms)
		w.elapse(500 * time.Millisecond)
		w.attempt(1, &driver.Claim{Seq: 105, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		w.withdraw(1, driver.Withdrawal{Seq: 101, Name: "b"})
		w.withdraw(1, driver.Withdrawal{Seq: 102, Name: "c"})
		w.compareAll()
		w.open(0, 400*time.Millisecond)
		w.ask(0, 4, "d", plainTerms)
		w.elapse(500 * time.Millisecond)
		w.open(0, 400*time.Millisecond)
		w.attempt(2, &driver.Claim{Seq: 105, Name: "d", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		w.compareAll()
	}},
	{name: "kept alive", play: func(w *world) {
		w.quick = true
		claim := func(seq uint64, name string) *driver.Claim {
			return &driver.Claim{Seq: seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		}
		for i := range w.procs {
			w.open(i, 600*time.Millisecond)
			w.elapse(tick) // their generations differ
		}
		w.attempt(0, claim(101, "a"))
		w.attempt(1, claim(101, "a"))
		w.pass(700*time.Millisecond, 0, 1, 2) // no script reads the sessions in between
		w.withdraw(0, driver.Withdrawal{Seq: 101, Name: "a"})
		w.attempt(1, claim(101, "a"))
		w.pass(700*time.Millisecond, 0, 1, 2)
		w.attempt(0, claim(102, "a"))
		w.attempt(2, claim(102, "b"))
		w.pass(300*time.Millisecond, 0, 2)
		w.pass(300*time.Millisecond, 0, 2) // the session of the holder ends
		w.attempt(2, claim(103, "a"))
		w.compareAll()
	}},
	{name: "dead holder and waiter", play: func(w *world) {
		w.quick = true
		w.open(0, 400*time.Millisecond)
		w.open(2, 2*time.Second)
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "a", plainTerms)
		w.ask(2, 1, "a", plainTerms)
		w.elapse(500 * time.Millisecond)
		w.compareAll()
	}},
	{name: "tombstones", play: func(w *world) {
		w.openAll()
		w.withdrawal(0, driver.Withdrawal{Seq: 101, Name: "a", Tombstone: true})
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "a", plainTerms)
		w.ask(1, 1, "a", plainTerms)
		w.withdrawal(1, driver.Withdrawal{Seq: 101, Name: "a", Tombstone: true})
		w.ask(1, 1, "a", plainTerms)
		w.ask(2, 1, "a", plainTerms)
		w.withdrawal(0, driver.Withdrawal{Seq: 102, Name: "a", Tombstone: true})
		w.ask(0, 2, "a", plainTerms)
		w.ask(1, 2, "b", plainTerms)
		w.ask(0, 3, "b", plainTerms)
		w.leave(1, 2, "b")
		w.leave(0, 3, "b")
		w.save()
		w.lose("older", false)
		w.compareAll()
		w.ask(0, 1, "a", plainTerms)
	}},
	{name: "holds", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", driver.Terms{MinHold: 300*time.Millisecond + holdExtra})
		w.ask(1, 1, "a", plainTerms)
		w.leave(0, 1, "a")
		w.elapse(320 * time.Millisecond)
		w.ask(0, 2, "b", driver.Terms{MaxHold: 200*time.Millisecond + holdExtra})
		w.ask(1, 2, "b", plainTerms)
		w.elapse(220 * time.Millisecond)
		w.ask(0, 2, "b", plainTerms)
		w.leave(0, 2, "b")
		w.ask(0, 3, "c", plainTerms)
		w.ask(1, 3, "c", plainTerms)
		w.withdrawal(0, driver.Withdrawal{Seq: 103, Name: "c", KeepFor: 500*time.Millisecond + holdExtra})
		w.ask(0, 4, "c", plainTerms)
		w.elapse(520 * time.Millisecond)
		w.ask(1, 3, "c", plainTerms)
		w.ask(0, 5, "d", driver.Terms{Mode: driver.Shared, MinHold: 3*time.Second + holdExtra})
		w.ask(1, 4, "d", plainTerms)
		w.pass(2100*time.Millisecond, 1)
	}},
	{name: "shared", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", readTerms)
		w.ask(1, 1, "a", readTerms)
		w.ask(2, 1, "a", plainTerms)
		w.try(0, 2, "a", readTerms)
		w.ask(0, 3, "a", readTerms)
		w.leave(0, 1, "a")
		w.leave(1, 1, "a")
		w.ask(1, 2, "a", readTerms)
		w.leave(2, 1, "a")
		w.setLimit("b", 3)
		w.ask(0, 1, "b", limited(2, 9))
		w.ask(1, 5, "b", limited(1, 2))
		w.ask(2, 5, "b", limited(1, 5))
		w.ask(2, 6, "b", limited(1, 5))
		w.leave(1, 5, "b")
		w.setLimit("b", 0)
		w.compareAll()
		w.leave(0, 1, "b")
		w.ask(0, 4, "b", limited(5, 9))
		w.setLimit("b", 2)
		w.leave(2, 5, "b")
		w.leave(2, 6, "b")
		w.ask(1, 6, "b", limited(1, 9))
		w.leave(0, 4, "b")
		w.ask(1, 7, "b", limited(4, 9))
		w.leave(1, 6, "b")
		w.setLimit("c", 1)
		w.ask(0, 8, "c", limited(3, 3))
		w.setLimit("c", 4)
		w.ask(1, 8, "c", limited(1, 4))
		w.setLimit("c", 3)
		w.ask(2, 8, "c", limited(1, 4))
		w.setLimit("c", 5)
		w.compareAll()
	}},
	{name: "downgrade", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "a", readTerms)
		w.ask(2, 1, "a", limited(1, 2))
		w.ask(0, 1, "a", limited(2, 4))
		w.ask(2, 2, "a", limited(1, 5))
		w.leave(0, 1, "a")
		w.leave(1, 1, "a")
		w.leave(2, 1, "a")
	}},
	{name: "re-entry", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", reentrant("r"))
		w.ask(1, 1, "a", reentrant("s"))
		w.ask(1, 2, "a", reentrant("r"))
		w.ask(2, 1, "a", plainTerms)
		w.leave(0, 1, "a")
		w.leave(1, 2, "a")
		w.ask(2, 2, "a", reentrant("s"))
		w.leave(1, 1, "a")
		w.leave(2, 2, "a")
		w.ask(0, 2, "b", readTerms)
		w.ask(1, 3, "b", reentrant("r"))
		w.ask(2, 3, "b", reentrant("r"))
		w.leave(0, 2, "b")
		w.ask(0, 4, "c", reentrant("r"))
		w.withdrawal(0, driver.Withdrawal{Seq: 104, Name: "c", KeepFor: 500*time.Millisecond + holdExtra})
		w.ask(1, 4, "c", reentrant("r"))
	}},
	{name: "break", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "a", plainTerms)
		w.ask(2, 1, "a", plainTerms)
		w.force("a")
		w.keepAlive(0)
		w.keepAlive(1)
		w.ask(0, 1, "a", plainTerms)
		w.leave(0, 1, "a")
		w.leave(0, 1, "a")
		w.keepAlive(0)
		w.leave(1, 1, "a")
		w.leave(2, 1, "a")
		w.ask(0, 2, "a", plainTerms)
		w.ask(0, 3, "b", readTerms)
		w.ask(1, 3, "b", readTerms)
		w.force("b")
		w.ask(1, 3, "b", readTerms)
		w.save()
		w.lose("older", false)
		w.compareAll()
		w.keepAlive(1)
		w.leave(1, 3, "b")
		w.gone(1, false)
	}},
	{name: "restart", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "a", plainTerms)
		w.ask(0, 2, "b", readTerms)
		w.ask(1, 2, "c", plainTerms)
		w.ask(1, 3, "d", plainTerms)
		w.ask(0, 3, "d", plainTerms)
		w.lose("restart", true)
		w.compareAll()
		w.ask(2, 1, "a", plainTerms)
		w.ask(1, 1, "a", plainTerms)
		w.ask(0, 1, "a", plainTerms)
		w.ask(2, 2, "d", plainTerms)
		w.gone(1, false)
		w.gone(0, true)
		w.leave(0, 1, "a")
		w.leave(2, 1, "a")
		w.leave(1, 1, "a")
		w.lose("flush", true)
		w.compareAll()
		w.ask(0, 5, "a", plainTerms)
		w.ask(1, 5, "a", plainTerms)
	}},
	{name: "older", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "b", plainTerms)
		w.ask(0, 6, "d", driver.Terms{MinHold: 3*time.Second + holdExtra})
		w.save()
		w.leave(0, 1, "a")
		w.ask(1, 1, "a", plainTerms)
		w.leave(1, 1, "a")
		w.ask(2, 1, "a", plainTerms)
		w.ask(0, 2, "b", readTerms)
		w.ask(2, 2, "c", plainTerms)
		w.lose("older", true)
		w.compareAll()
		w.ask(1, 2, "c", plainTerms)
		w.ask(1, 7, "d", plainTerms)
		w.gone(0, true)
		w.ask(1, 3, "a", plainTerms)
		w.gone(2, true)
		w.gone(1, true)
	}},
}
