// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestClaimQueuedTwiceDoesNotDelayTheNext: an attempt that arrives after its repetition queues the
// claim a second time. The withdrawal of the claim, which has a tombstone then, grants the lock to
// the next process and not to what is left of the claim.
func TestClaimQueuedTwiceDoesNotDelayTheNext(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, lists+"QueuedTwice"+scripted)
	for _, who := range []string{"ann", "bob", "carol"} {
		l.open(who, time.Minute)
	}
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
	list := l.base + ":l:x"
	queued := []byte(l.plain.LIndex(t.Context(), list, -1).Val())
	queued[6]++ // since when
	must.OK(t, l.plain.LMove(t.Context(), l.base+":t", list, "LEFT", "RIGHT").Err())
	must.OK(t, l.plain.RPush(t.Context(), list, queued).Err())
	l.attempt("carol", 1, "x", driver.Terms{}, driver.Queued)
	for _, w := range []struct {
		who       string
		tombstone bool
	}{{"ann", false}, {"bob", true}} {
		withdrawal := driver.Withdrawal{Seq: 1, Name: "x", Tombstone: w.tombstone}
		if found, err := l.on[w.who].Withdraw(t.Context(), withdrawal); err != nil || found != driver.WasGranted {
			t.Fatalf("%s's withdrawal found %v, %v", w.who, found, err)
		}
	}
	carol := l.ids["carol"]
	holder := l.plain.LIndex(t.Context(), list, 1).Val()
	if holder[0] != 'G' || holder[7:23] != string(carol[:]) || l.plain.LLen(t.Context(), list).Val() != 2 {
		t.Errorf("the list begins with %q and has %d elements; want carol's grant alone", holder, l.plain.LLen(t.Context(), list).Val())
	}
}

// TestClaimThatArrivedBehindItsTombstoneIsRemovedWithIt: commands that arrive after the withdrawal of
// their claim leave it in the list of the lock, where its tombstone keeps it from counting. When
// the tombstone is dropped after an hour, the claim is gone too, at the front and within the queue.
func TestClaimThatArrivedBehindItsTombstoneIsRemovedWithIt(t *testing.T) {
	t.Parallel()
	l, p := newStill(t)
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	l.attempt("bob", 1, "queued", driver.Terms{}, driver.Granted)
	l.attempt("bob", 2, "queued", driver.Terms{}, driver.Queued)
	for i, name := range []string{"free", "queued"} {
		seq := uint64(1 + i)
		want := driver.Granted
		if name == "queued" {
			want = driver.Queued
		}
		l.attempt("ann", seq, name, driver.Terms{}, want)
		list := l.base + ":l:" + name
		claim := l.plain.LIndex(t.Context(), list, -1).Val()
		if _, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: name, Tombstone: true}); err != nil {
			t.Fatal(err)
		}
		must.OK(t, l.plain.LMove(t.Context(), l.base+":t", list, "LEFT", "RIGHT").Err())
		must.OK(t, l.plain.RPush(t.Context(), list, "X"+claim[1:]).Err())
	}
	for range 62 * 4 {
		p.now = p.now.Add(15 * time.Second)
		must.OK(t, p.write(t.Context()))
		l.keepAlive("ann")
		l.keepAlive("bob")
	}
	redistest.WaitFor(t, "the tombstones are dropped", func() bool {
		l.keepAlive("ann")
		return !strings.Contains(l.fields(), "bann")
	})
	l.attempt("bob", 3, "free", driver.Terms{}, driver.Granted)
	if n := l.plain.LLen(t.Context(), l.base+":l:queued").Val(); n != 4 {
		t.Errorf("the list with a holder and a claim in the queue has %d elements", n)
	}
}
