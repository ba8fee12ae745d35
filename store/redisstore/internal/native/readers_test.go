// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// manyReaders is more than the grants of a shared lock that one call of a script checks.
const manyReaders = 300

// newStill returns a scene in which the clock stands still.
func newStill(t *testing.T) (*listScene, *pretense) {
	t.Helper()
	server := redistest.Start(t)
	p, client := newPretense(t, server.Addr)
	store, err := newGoRedis(client, &native.Options{Namespace: p.namespace})
	must.OK(t, err)
	must.OK(t, p.write(t.Context()))
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
	must.OK(l.t, err)
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
			must.OK(t, p.write(t.Context()))
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
		must.OK(t, p.write(t.Context()))
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
	redistest.WaitFor(t, "the dead session is swept", func() bool {
		l.keepAlive("ann")
		return !l.plain.HExists(t.Context(), l.base, "s"+string(bob[:])).Val()
	})
}

// TestManyHoldersAreReadInParts: what operators ask about a lock with thousands of readers is read in parts, so that no call
// blocks the server, and the rest is counted. A holder that is not shown can be broken, too.
func TestManyHoldersAreReadInParts(t *testing.T) {
	t.Parallel()
	l, _ := newStill(t)
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	const readers = 3000
	tokens := map[uint64]driver.Token{}
	for seq := uint64(1); seq <= readers; seq++ {
		tokens[seq] = l.attempt("ann", seq, "x", driver.Terms{Mode: driver.Shared, Limit: readers}, driver.Granted)
	}
	for i := range 60 { // more locks than one call shows, with readers that one call shows
		for seq := range uint64(20) {
			l.attempt("ann", 100_000+uint64(i)*20+seq, fmt.Sprint("y", i), driver.Terms{Mode: driver.Shared}, driver.Granted)
		}
	}
	l.attempt("bob", 1, "x", driver.Terms{Mode: driver.Shared, Limit: readers}, driver.Queued)
	ctx := t.Context()
	check := func(st driver.Status, total int) {
		t.Helper()
		if n := len(st.Holders); n < driver.MaxHoldersInspected || n > driver.MaxHoldersInspected+200 || n+st.MoreHolders != total {
			t.Errorf("%d holders are shown, and %d more, want %d in all", n, st.MoreHolders, total)
		}
		for i, h := range st.Holders {
			if i > 0 && st.Holders[i-1].Token >= h.Token || tokens[h.Claim.Seq] != h.Token {
				t.Fatalf("holder %d is %+v, behind %+v", i, h, st.Holders[max(0, i-1)])
			}
		}
	}
	all := func() int64 { return l.calls("hgetall") }
	before := all()
	st, err := l.store.Inspect(ctx, "x")
	must.OK(t, err)
	check(st, readers)
	page, err := l.store.List(ctx, driver.ListQuery{Max: 1000})
	if err != nil || len(page.Locks) != 61 {
		t.Fatalf("%d locks are listed, %v", len(page.Locks), err)
	}
	check(page.Locks[0], readers)
	for _, st := range page.Locks[1:] {
		if len(st.Holders) != 20 || st.MoreHolders != 0 {
			t.Errorf("%s has %d holders and %d more", st.Name, len(st.Holders), st.MoreHolders)
		}
	}
	most := all() - before
	l.breakSome(tokens, 1, 1234, readers)
	if most > 60 || all()-before > most {
		t.Errorf("%d times all grants of a lock were read, want only those of locks with few", all()-before)
	}
	l.attempt("bob", 1, "x", driver.Terms{Mode: driver.Shared, Limit: readers}, driver.Granted)
}

// breakSome breaks holders of the lock x by their tokens.
func (l *listScene) breakSome(tokens map[uint64]driver.Token, seqs ...uint64) {
	l.t.Helper()
	for _, seq := range seqs {
		if fence, err := l.store.Break(l.t.Context(), "x", tokens[seq]); err != nil || fence <= tokens[seqs[len(seqs)-1]] {
			l.t.Errorf("to break holder %d: %v, %v", seq, fence, err)
		}
		if _, err := l.store.Break(l.t.Context(), "x", tokens[seq]); !errors.Is(err, driver.ErrNotHeld) {
			l.t.Errorf("to break it again: %v", err)
		}
	}
	if got := l.keepAlive("ann").Broken; !slices.Equal(got, seqs) {
		l.t.Errorf("broken are %v", got)
	}
}

// TestLimitBelowAHeavyGrantCostsLittle: a weight above a limit that was lowered counts as the limit, so the sum of all weights is
// not enough. Grants are read only if they decide.
func TestLimitBelowAHeavyGrantCostsLittle(t *testing.T) {
	t.Parallel()
	l, _ := newStill(t)
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	l.attempt("ann", 1000, "x", driver.Terms{Mode: driver.Shared, Weight: 500, Limit: 2000}, driver.Granted)
	l.readers("ann", "x", manyReaders, 2000)
	must.OK(t, l.store.SetLimit(t.Context(), "x", 200))
	before := l.calls("hgetall")
	for seq := range uint64(10) {
		if out := l.try("bob", seq+1, "x", driver.Terms{Mode: driver.Shared, Limit: 2000}); out.State != driver.Busy {
			t.Errorf("over the limit: %v", out.State)
		}
	}
	if n := l.calls("hgetall") - before; n > 0 {
		t.Errorf("all grants were read %d times", n)
	}
	must.OK(t, l.store.SetLimit(t.Context(), "x", 400))
	if out := l.try("bob", 20, "x", driver.Terms{Mode: driver.Shared, Limit: 2000}); out.State != driver.Busy {
		t.Errorf("beside a grant that is heavier than the limit: %v", out.State)
	}
	if _, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 1000, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	before = l.calls("hgetall")
	for seq := range uint64(10) {
		if out := l.try("bob", seq+30, "x", driver.Terms{Mode: driver.Shared, Limit: 2000}); out.State != driver.Granted {
			t.Errorf("below the limit: %v", out.State)
		}
	}
	if n := l.calls("hgetall") - before; n > 1 {
		t.Errorf("all grants were read %d times after the heavy one had gone", n)
	}
}
