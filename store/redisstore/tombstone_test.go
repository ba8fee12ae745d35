// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestTombstoneCostsLittle: a tombstoned claim costs the other claims of its session one
// command. They still take the fast path.
func TestTombstoneCostsLittle(t *testing.T) {
	t.Parallel()
	p, store := pretended(t)
	p.proven = true
	w := newWorld(t, p, store, nil)
	w.open(0, time.Second)
	seq := w.procs[0].seq
	pair := func() {
		seq++
		w.attempt(0, &driver.Claim{Seq: seq, Name: "a", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		w.withdraw(0, driver.Withdrawal{Seq: seq, Name: "a"})
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
	seq++
	tombstoned := &driver.Claim{Seq: seq, Name: "a", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
	w.withdraw(0, driver.Withdrawal{Seq: seq, Name: "a", Tombstone: true})
	w.attempt(0, tombstoned) // the model says that it is refused
	if marked := cost(); marked > free+pairs+2 {
		t.Errorf("%d locks and unlocks take %d commands, and %d after a tombstone; want one more each", pairs, free, marked)
	}
	w.attempt(0, tombstoned)
}

var counted = regexp.MustCompile(`calls=(\d+)`)

// commandsDone is how many commands the server has done, those of scripts too.
func commandsDone(t *testing.T, p *pretence) (n int) {
	t.Helper()
	text, err := p.plain.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
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
	p, client := newPretence(t, redistest.Start(t).Addr)
	store, err := redisstore.New(client, &redisstore.Options{MaxTTL: 10 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.write(ctx))
	session, _, err := store.Open(ctx, driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Hour})
	must(err)
	refused := func(seq uint64, when string) {
		claim := driver.Claim{Seq: seq, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		if out, err := session.Attempt(ctx, &claim); err != nil || out.State != driver.Absent {
			t.Errorf("claim %d %s: %v, %v", seq, when, out.State, err)
		}
	}
	pass := func(d time.Duration) {
		p.now = p.now.Add(d)
		must(p.write(ctx))
		for range 2 { // it sweeps
			_, err := session.KeepAlive(ctx)
			must(err)
		}
	}
	tombstone := func(seq uint64) {
		_, err := session.Withdraw(ctx, driver.Withdrawal{Seq: seq, Name: "x", Tombstone: true})
		must(err)
	}
	state := func() (int, bool) {
		all, err := client.HGetAll(ctx, "fencelock:{fencelock:0}").Result()
		must(err)
		return marks(all)
	}
	tombstone(1)
	tombstone(1) // again: it counts once
	pass(30 * time.Minute)
	tombstone(2)
	pass(29 * time.Minute)
	refused(1, "within an hour of its tombstone")
	refused(2, "within an hour of its tombstone")
	if marks, marked := state(); marks != 2 || !marked {
		t.Errorf("within an hour: %d marks, the session says %t", marks, marked)
	}
	pass(2 * time.Minute)
	refused(2, "when the mark of another has gone")
	if marks, marked := state(); marks != 1 || !marked {
		t.Errorf("after an hour of one: %d marks, the session says %t", marks, marked)
	}
	pass(time.Hour)
	if marks, marked := state(); marks != 0 || marked {
		t.Errorf("after an hour of both: %d marks, the session says %t", marks, marked)
	}
}

// marks is how many there are in a bucket, and whether a session says that there are.
func marks(bucket map[string]string) (n int, notified bool) {
	for field, value := range bucket {
		if field[0] == 'b' {
			n++
		}
		notified = notified || field[0] == 's' && value[13] == 1
	}
	return n, notified
}
