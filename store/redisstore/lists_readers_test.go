// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// manyReaders is more than the grants of a shared lock that one call of a script checks.
const manyReaders = 300

// newStill returns a scene in which the clock stands still.
func newStill(t *testing.T) (*listScene, *pretence) {
	t.Helper()
	server := redistest.Start(t)
	p, client := newPretence(t, server.Addr)
	store, err := redisstore.New(client, &redisstore.Options{Namespace: p.namespace})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	base := p.namespace + ":{" + p.namespace + ":0}"
	return &listScene{t, server, p.plain, store, base, map[string]driver.SessionID{}, map[string]driver.Session{}}, p
}

// readers makes so many grants of a shared lock.
func (l *listScene) readers(who, name string, n int, limit int64) {
	l.t.Helper()
	for i := range n {
		l.attempt(who, uint64(1+i), name, driver.Terms{Mode: driver.Shared, Limit: limit}, driver.Granted)
	}
}

// try attempts a claim that does not wait.
func (l *listScene) try(who string, seq uint64, name string, terms driver.Terms) driver.Outcome {
	l.t.Helper()
	terms.Weight, terms.Record = 1, &driver.Record{Owner: who}
	out, err := l.on[who].Attempt(l.t.Context(), &driver.Claim{Seq: seq, Name: name, Terms: &terms})
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// calls returns how often the server was called by name.
func (l *listScene) calls(command string) int64 {
	l.t.Helper()
	stats := l.plain.Info(l.t.Context(), "commandstats").Val()
	found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseInt(found[1], 10, 64)
	return n
}

// TestTryFindsDeadReadersGone: a lock that many readers held is free once their sessions ended,
// even for a claim that does not wait, and so is a permit. Inspect shows no such reader.
func TestTryFindsDeadReadersGone(t *testing.T) {
	t.Parallel()
	for _, want := range []driver.Terms{{}, {Mode: driver.Shared, Limit: manyReaders}} {
		t.Run(fmt.Sprint("limit=", want.Limit), func(t *testing.T) {
			t.Parallel()
			l, p := newStill(t)
			l.open("ann", 2*time.Second)
			l.open("bob", time.Minute)
			l.readers("ann", "x", manyReaders, want.Limit)
			if out := l.try("bob", 1, "x", want); out.State != driver.Busy {
				t.Fatalf("beside readers that live a try is %v", out.State)
			}
			p.now = p.now.Add(3 * time.Second)
			if err := p.write(t.Context()); err != nil {
				t.Fatal(err)
			}
			if st, err := l.store.Inspect(t.Context(), "x"); err != nil || len(st.Holders) != 0 {
				t.Errorf("Inspect shows %d holders, %v", len(st.Holders), err)
			}
			if out := l.try("bob", 2, "x", want); out.State != driver.Granted {
				t.Errorf("behind readers that ended a try is %v", out.State)
			}
		})
	}
}

// TestManyReadersAreNotReadForEachRelease: while a writer waits, neither a release of one of many
// readers, nor a poll, nor a new reader makes the server go over all of them.
func TestManyReadersAreNotReadForEachRelease(t *testing.T) {
	t.Parallel()
	l, _ := newStill(t)
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	l.readers("ann", "x", manyReaders, 0)
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
	const turns = 20
	scans, all := l.calls("hscan"), l.calls("hgetall")
	for i := range uint64(turns) {
		if found, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 1 + i, Name: "x"}); err != nil || found != driver.WasGranted {
			t.Fatalf("a release found %v, %v", found, err)
		}
		l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
		l.attempt("ann", manyReaders+1+i, "x", driver.Terms{Mode: driver.Shared}, driver.Queued)
	}
	// Each call checks one part of the readers, and two if it removes one.
	if scans, all = l.calls("hscan")-scans, l.calls("hgetall")-all; scans > 4*turns || all != 0 {
		t.Errorf("%d calls read %d parts of the readers, and %d times all of them", 3*turns, scans, all)
	}
}

// TestReachedLimitIsNotCheckedByEachTry: while all permits are in use, claims that do not wait do not
// each make the server go over all of them.
func TestReachedLimitIsNotCheckedByEachTry(t *testing.T) {
	t.Parallel()
	l, p := newStill(t)
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	l.readers("ann", "x", manyReaders, manyReaders)
	permit := driver.Terms{Mode: driver.Shared, Limit: manyReaders}
	for seconds, least := range []int64{manyReaders / 64, manyReaders / 64} {
		p.now = p.now.Add(time.Duration(seconds) * time.Second)
		if err := p.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := l.calls("hscan")
		for i := range uint64(20) {
			if out := l.try("bob", 1+i, "x", permit); out.State != driver.Busy {
				t.Fatalf("a permit beyond the limit is %v", out.State)
			}
		}
		if n := l.calls("hscan") - before; n < least || n > 3*least {
			t.Errorf("20 tries read %d parts of the permits, want all of them once, which are %d or more", n, least)
		}
	}
}

// TestSweepEndsBesideManyReaders: what a dead process has left behind is swept although several locks
// have many readers, and another number each.
func TestSweepEndsBesideManyReaders(t *testing.T) {
	t.Parallel()
	l := newLists(t)
	l.open("ann", time.Minute)
	for _, parts := range []int{3, 5, 7, 8, 11} {
		l.readers("ann", fmt.Sprint("x", parts), 64*parts-16, 0)
	}
	l.open("bob", 100*time.Millisecond)
	bob := l.ids["bob"]
	waitFor(t, "the dead session is swept", func() bool {
		l.keepAlive("ann")
		return !l.plain.HExists(t.Context(), l.base, "s"+string(bob[:])).Val()
	})
}
