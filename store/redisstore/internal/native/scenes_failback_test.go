// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// unchecked lets the time pass for which a check of the replication id counts.
func (w *world) unchecked() {
	w.t.Helper()
	w.p.now = w.p.now.Add(1100 * time.Millisecond)
	w.must(w.p.write(w.ctx))
}

// openLong opens sessions that outlive the check of a marker.
func (w *world) openLong() {
	w.t.Helper()
	w.open(0, 2*time.Second)
	w.open(1, 2*time.Second)
}

// older gives the server data of before, with a lower incarnation, and tickets below a token.
func (w *world) older(token driver.Token) {
	w.t.Helper()
	m, err := w.p.plain.HGet(w.ctx, w.bucket(), "m").Result()
	w.must(err)
	w.must(w.p.plain.HSet(w.ctx, w.bucket(), "m", m[:5]+string([]byte{m[5] - 1})+m[6:], "v", int64(token)/driver.TokenStep-1000).Err())
	w.must(w.p.plain.Del(w.ctx, w.bucket()+":t").Err())
}

// failbackScenes are about a server that was replaced and takes over again with its own old data.
var failbackScenes = []scene{
	{name: "promoted again", play: func(w *world) {
		w.openLong()
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.must(w.p.promote(w.ctx, "first", 1))
		w.unchecked()
		// The first call must see it, whatever it is sent by.
		_, err := w.procs[1].real.Attempt(w.ctx, &driver.Claim{Seq: 200, Name: "b", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		w.isReset("an attempt", err)
		w.fails("of a server that was a replica", 0, 200, "a", driver.ErrReset)
	}},
	{name: "promoted again, handoff", play: func(w *world) {
		w.openLong()
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.only(w.procs[1].real, 200, "a", true, driver.Queued)
		w.must(w.p.promote(w.ctx, "first", 1))
		w.unchecked()
		if _, err := w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 200, Name: "a"}); w.scripted {
			w.isReset("a withdrawal", err)
		}
		_, err := w.procs[1].real.Attempt(w.ctx, &driver.Claim{Seq: 200, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		w.isReset("an attempt", err)
	}},
	{name: "promoted again, dead holder", play: func(w *world) {
		w.open(1, 2*time.Second)
		w.open(0, 300*time.Millisecond)
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.only(w.procs[1].real, 200, "b", true, driver.Granted)
		w.must(w.p.promote(w.ctx, "first", 1))
		w.p.now = w.p.now.Add(400 * time.Millisecond) // the check still counts, and the session is over here
		w.must(w.p.write(w.ctx))
		claim := &driver.Claim{Seq: 201, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		if out, err := w.procs[1].real.Attempt(w.ctx, claim); err == nil && out.State == driver.Granted {
			w.differ("a lock whose holder may be alive on another server was granted")
		}
		_, err := w.procs[1].real.Attempt(w.ctx, claim)
		w.isReset("an attempt", err)
	}},
	{name: "writable replica", play: func(w *world) {
		w.openLong()
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.must(w.p.demote(w.ctx))
		w.unchecked()
		claim := &driver.Claim{Seq: 200, Name: "b", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		if _, err := w.procs[1].real.Attempt(w.ctx, claim); !errors.Is(err, driver.ErrUnavailable) {
			w.differ("an attempt at a replica: %v", err)
		}
		if _, _, err := w.real.Open(w.ctx, driver.OpenRequest{Shard: w.real.Shard("a"), ID: driver.SessionID{9}, TTL: time.Second}); !errors.Is(err, driver.ErrUnavailable) {
			w.differ("a session was opened at a replica: %v", err)
		}
		w.must(w.p.promote(w.ctx, "first", 1))
		_, err := w.procs[1].real.Attempt(w.ctx, claim)
		w.isReset("an attempt", err)
	}},
	{name: "new replica", play: func(w *world) {
		w.openLong()
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.must(w.p.promote(w.ctx, "000", 1))
		w.unchecked()
		w.only(w.procs[1].real, 200, "b", true, driver.Granted)
		w.only(w.procs[0].real, 201, "c", false, driver.Granted)
	}},
	{name: "no replica for long", play: func(w *world) {
		w.must(w.p.promote(w.ctx, "000", 1))
		w.openLong()
		w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.must(w.p.promote(w.ctx, "000", 0))
		w.unchecked()
		_, err := w.procs[1].real.Attempt(w.ctx, &driver.Claim{Seq: 200, Name: "b", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		w.isReset("an attempt", err)
		w.must(w.p.promote(w.ctx, "000", 1)) // and now there is one again
		w.unchecked()
		w.fails("of a server that may have been a replica", 0, 200, "a", driver.ErrReset)
	}},
	{name: "seen", play: func(w *world) {
		w.openLong()
		before := w.only(w.procs[0].real, 200, "a", true, driver.Granted)
		w.older(before.Token)
		for _, queue := range []bool{false, true} {
			_, err := w.procs[0].real.Attempt(w.ctx, &driver.Claim{Seq: 201, Name: "b", Queue: queue, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
			w.isReset("an attempt", err)
		}
		for _, name := range []string{"b", "c"} { // after a call of a session, and as the first call
			s, _, err := w.real.Open(w.ctx, driver.OpenRequest{Shard: w.real.Shard(name), ID: driver.SessionID{name[0]}, TTL: time.Second})
			w.must(err)
			after := w.only(s, 1, name, true, driver.Granted)
			if after.Token <= before.Token {
				w.differ("token %v after %v", after.Token, before.Token)
			}
			before = after
			w.older(before.Token)
		}
	}},
}
