// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestTombstoneCostsLittle: a tombstoned claim costs the other claims of its session one command
// if a script acquires the lock, and none if plain commands do. They still take the fast path.
func TestTombstoneCostsLittle(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name, suffix string
		queue        bool
		more         int // commands for a lock and its release
	}{
		{"plain commands", "", true, 0},
		{"a try", "", false, 1},
		{"contended", scripted, true, 1},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			p, client := newPretense(t, redistest.Start(t).Addr)
			p.proven = true
			must.OK(t, p.write(t.Context()))
			w := newWorld(t, p, newStoreIn(t, client, p.namespace+way.suffix, false), nil)
			w.open(0, time.Second)
			seq := w.procs[0].seq
			claim := func() *driver.Claim {
				seq++
				return &driver.Claim{Seq: seq, Name: "a", Queue: way.queue, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
			}
			pair := func() {
				c := claim()
				w.attempt(0, c)
				w.withdraw(0, driver.Withdrawal{Seq: c.Seq, Name: "a"})
			}
			const pairs = 20
			cost := func() int {
				before := commandsDone(t, p)
				for range pairs {
					pair()
				}
				return commandsDone(t, p) - before
			}
			free := cost()
			tombstoned := claim()
			w.withdraw(0, driver.Withdrawal{Seq: tombstoned.Seq, Name: "a", Tombstone: true})
			w.attempt(0, tombstoned) // the model says that it is refused
			if marked := cost(); marked > free+way.more*pairs+2 {
				t.Errorf("%d locks and unlocks take %d commands, and %d after a tombstone; want %d more each", pairs, free, marked, way.more)
			}
			w.attempt(0, tombstoned)
		})
	}
}

var counted = regexp.MustCompile(`calls=(\d+)`)

// commandsDone is how many commands the server has done, those of scripts too.
func commandsDone(t *testing.T, p *pretense) (n int) {
	t.Helper()
	text, err := p.plain.Info(t.Context(), "commandstats").Result()
	must.OK(t, err)
	for _, m := range counted.FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return n
}

// TestTombstoneEnds: what was tombstoned is refused for an hour. Then no call of it can
// arrive any more, and nothing is left of it, although its session lives on.
func TestTombstoneEnds(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	l := layoutWith(t, client, native.Options{Namespace: "orders", MaxTTL: 10 * time.Hour})
	l.must(p.write(l.ctx))
	l.openFor("ann", 10*time.Hour)
	state := func() (int, bool) {
		all, err := client.HGetAll(l.ctx, l.bucket).Result()
		l.must(err)
		return marks(all)
	}
	keep := func() { _, err := l.on["ann"].KeepAlive(l.ctx); l.must(err) }
	pass := func(d time.Duration) {
		p.now = p.now.Add(d)
		l.must(p.write(l.ctx))
		keep()
	}
	want := func(when string, left int) { // keep-alives drop them, in the background
		t.Helper()
		redistest.WaitFor(t, fmt.Sprintf("%s: %d marks are left", when, left), func() bool { keep(); n, _ := state(); return n == left })
		if _, marked := state(); marked != (left > 0) {
			t.Errorf("%s: %d marks, the session says %t", when, left, marked)
		}
	}
	l.withdraw("ann", 1, true)
	l.withdraw("ann", 1, true) // again: it counts once
	pass(30 * time.Minute)
	l.withdraw("ann", 2, true)
	pass(29 * time.Minute)
	l.attempt("ann", 1, driver.Terms{}, driver.Absent)
	l.attempt("ann", 2, driver.Terms{}, driver.Absent)
	want("within an hour", 2)
	pass(4 * time.Minute)
	want("after an hour of one", 1)
	l.attempt("ann", 2, driver.Terms{}, driver.Absent)
	pass(time.Hour)
	want("after an hour of both", 0)
}

// TestManyTombstonesEndWithOneKeepAlive: they are made as fast as callers give up, so one keep-alive drops all that have ended,
// not a part of them.
func TestManyTombstonesEndWithOneKeepAlive(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	l := layoutWith(t, client, native.Options{Namespace: "orders", MaxTTL: 10 * time.Hour})
	l.must(p.write(l.ctx))
	l.openFor("ann", 10*time.Hour)
	const many = 450
	for seq := uint64(1); seq <= many; seq++ {
		l.withdraw("ann", seq, true)
	}
	left := func() int {
		all, err := client.HGetAll(l.ctx, l.bucket).Result()
		l.must(err)
		n, _ := marks(all)
		return n
	}
	if n := left(); n != many {
		t.Fatalf("there are %d marks", n)
	}
	p.now = p.now.Add(2 * time.Hour)
	l.must(p.write(l.ctx))
	_, err := l.on["ann"].KeepAlive(l.ctx)
	l.must(err)
	redistest.WaitFor(t, "all marks are dropped", func() bool { return left() == 0 })
}

// marks is how many there are in a bucket, and whether a session says that there are.
func marks(bucket map[string]string) (n int, notified bool) {
	for field, value := range bucket {
		if field[0] == 'b' {
			n++
		}
		notified = notified || field[0] == 's' && value[13:17] != "\x00\x00\x00\x00"
	}
	return n, notified
}
