// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// inShard returns a name in a bucket of so many.
func inShard(t *testing.T, s Store, shard string) string {
	t.Helper()
	for i := range 1000 {
		if name := fmt.Sprint("n", i); s.Shard(name) == shard {
			return name
		}
	}
	t.Fatal("no name is in bucket " + shard)
	return ""
}

// openIn opens a session in a bucket.
func openIn(t *testing.T, s Store, shard string, ttl time.Duration) driver.Session {
	t.Helper()
	d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: shard, ID: driver.NewSessionID(), TTL: ttl})
	must.OK(t, err)
	return d
}

// TestGraceSeenInOneBucketCountsInAll: a process that has seen grace in one bucket knows that the namespace has it. After a data
// loss it begins no other bucket without (rule Remembered of package gracemodel).
func TestGraceSeenInOneBucketCountsInAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	asks := open(redisstore.Options{Grace: true, MaxTTL: 20 * time.Second, Buckets: 5})
	openIn(t, asks, "3", 2*time.Second)
	plain := open(redisstore.Options{Buckets: 5})
	openIn(t, plain, "1", 2*time.Second)
	must.OK(t, server.Do("FLUSHALL").Err())
	d := openIn(t, plain, "3", 2*time.Second)
	out, err := d.Attempt(t.Context(), aClaim(1, inShard(t, plain, "3")))
	if err != nil || !out.Grace {
		t.Errorf("got %+v, %v, want a grace period", out, err)
	}
}

// TestFirstBucketTellsANewProcessOfGrace: one bucket is lost, as with its node of a cluster. A process that has seen nothing yet, and
// does not ask for grace, learns from the first bucket that there is grace before it begins the other one.
func TestFirstBucketTellsANewProcessOfGrace(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	asks := open(redisstore.Options{Grace: true, MaxTTL: 20 * time.Second, Buckets: 5})
	must.OK(t, asks.Begin(t.Context()))
	const lose = "for _, k in ipairs(redis.call('KEYS', '*{fencelock:3*')) do redis.call('DEL', k) end return 1"
	must.OK(t, server.Do("EVAL", lose, "0").Err())
	plain := open(redisstore.Options{Buckets: 5})
	out, err := openIn(t, plain, "3", 10*time.Second).Attempt(t.Context(), aClaim(1, inShard(t, plain, "3")))
	if err != nil || !out.Grace {
		t.Errorf("got %+v, %v, want a grace period", out, err)
	}
}

// TestAnOperatorStrengthensAYoungIncarnation: an operator who switches grace on, or raises max_ttl, after a data loss that a
// stranger found, has the rest of the grace period kept, as a process does that asks for it (rule Rest). The next such process
// would find that there is nothing to change.
func TestAnOperatorStrengthensAYoungIncarnation(t *testing.T) {
	t.Parallel()
	for _, change := range [][2]string{{"grace", "true"}, {"max_ttl", "20s"}} {
		server := redistest.Start(t)
		open := opener(t, server.Addr)
		first := redisstore.Options{MaxTTL: 20 * time.Second}
		if change[0] == "max_ttl" {
			first = redisstore.Options{MaxTTL: 5 * time.Second, Grace: true}
		}
		stranger := openIn(t, open(first), "0", 5*time.Second)
		tool := open(redisstore.Options{})
		must.OK(t, tool.Configure(t.Context(), change[0], change[1]))
		asks := openIn(t, open(redisstore.Options{Grace: true, MaxTTL: 20 * time.Second}), "0", 10*time.Second)
		for _, d := range []driver.Session{stranger, asks} {
			out, err := d.Attempt(t.Context(), aClaim(1, "x"))
			if err != nil || !out.Grace || out.PollAfter < 10*time.Second {
				t.Errorf("%v: got %+v, %v, want the rest of 20 s", change, out, err)
			}
		}
	}
}

// TestAnOperatorUndoesALongMaxTTL: a max_ttl that was raised by mistake stops all locks for that long in a young incarnation.
// When it is lowered again they go on.
func TestAnOperatorUndoesALongMaxTTL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	const maxTTL = 4 * time.Second
	store := open(redisstore.Options{Grace: true, MaxTTL: maxTTL})
	must.OK(t, store.Begin(t.Context()))
	d := openIn(t, store, "0", maxTTL)
	wantGrace(t, "at first", d, false)
	mistaken := openIn(t, open(redisstore.Options{Grace: true, MaxTTL: 24 * time.Hour}), "0", 10*time.Second)
	wantGrace(t, "with a max_ttl of a day", d, true)
	must.OK(t, mistaken.Close(t.Context()))
	old(t, server, maxTTL, d)
	must.OK(t, open(redisstore.Options{}).Configure(t.Context(), "max_ttl", maxTTL.String()))
	wantGrace(t, "when it was lowered", d, false)
}

// TestAnOperatorSwitchesGraceOnInEveryBucket: also in those that no process has used yet, and that a process sets up which
// asks for nothing.
func TestAnOperatorSwitchesGraceOnInEveryBucket(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	openIn(t, open(redisstore.Options{Buckets: 5}), "1", 2*time.Second)
	tool := open(redisstore.Options{})
	must.OK(t, tool.Configure(t.Context(), "grace", "true"))
	openIn(t, open(redisstore.Options{Buckets: 5}), "3", 2*time.Second)
	if got := setting(t, tool, "grace"); got != "true" {
		t.Errorf("grace is %s, want what the operator set", got)
	}
}

// TestAnyKeepAliveShowsGrace: also one that is a script, as the first of a session.
func TestAnyKeepAliveShowsGrace(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := opener(t, server.Addr)
	plain := open(redisstore.Options{})
	d := openIn(t, plain, "0", 10*time.Second)
	mustOpen(t, open(redisstore.Options{Grace: true, MaxTTL: 20 * time.Second}))
	if _, err := d.KeepAlive(t.Context()); err != nil {
		t.Fatal(err)
	}
	must.OK(t, server.Do("FLUSHALL").Err())
	wantGrace(t, "after a data loss", mustOpen(t, plain), true)
}
