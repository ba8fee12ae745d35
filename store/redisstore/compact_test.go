// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// queue returns the value of q<name>: the first place, the place after the last, and how
// many are taken.
func (l *layout) queue() (first, last, taken int64) {
	l.t.Helper()
	raw, err := l.plain.HGet(l.ctx, l.bucket, "qx").Bytes()
	l.must(err)
	return number(raw[:6]), number(raw[6:12]), number(raw[12:18])
}

// fieldsRead counts the field lookups that scripts make while f runs.
func (l *layout) fieldsRead(f func()) (calls int) {
	l.t.Helper()
	l.must(l.plain.ConfigResetStat(l.ctx).Err())
	f()
	text, err := l.plain.Info(l.ctx, "commandstats").Result()
	l.must(err)
	for _, m := range regexp.MustCompile(`cmdstat_h\w+:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		calls += n
	}
	return calls
}

// TestQueueIsCompacted: one claim waits for long, and hundreds come and go behind it. No
// call walks over the places that they have given up.
func TestQueueIsCompacted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		held driver.Terms
	}{{"plain", driver.Terms{}}, {"re-entrant", driver.Terms{Reentry: "r"}}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLayout(t)
			for _, who := range []string{"ann", "bob", "eve", "new"} {
				l.open(who)
			}
			l.attempt("ann", 1, tt.held, driver.Granted)
			l.attempt("bob", 1, driver.Terms{}, driver.Queued)
			const many = 1000
			worst := 0
			for seq := uint64(2); seq < many; seq++ {
				l.attempt("eve", seq, driver.Terms{}, driver.Queued)
				worst = max(worst, l.fieldsReadBy(seq%100 == 0, func() { l.withdraw("eve", seq, false) }))
			}
			l.attempt("eve", many, driver.Terms{}, driver.Queued)
			if first, last, taken := l.queue(); last-first > 2*taken+64 || taken != 2 {
				t.Errorf("the queue goes from place %d to %d with %d taken, want the places given up to be gone", first, last, taken)
			}
			const few = 40
			if n := l.fieldsRead(func() {
				st, err := l.store.Inspect(l.ctx, "x")
				l.must(err)
				if st.Waiting != 2 || len(st.Waiters) != 2 || st.Waiters[1].Claim.Seq != many {
					t.Errorf("Inspect shows %d waiting, %+v", st.Waiting, st.Waiters)
				}
			}); n > few {
				t.Errorf("Inspect made %d lookups, want at most %d", n, few)
			}
			if n := l.fieldsRead(func() { l.attempt("new", 1, driver.Terms{}, driver.Queued) }); n > few {
				t.Errorf("queueing made %d lookups, want at most %d", n, few)
			}
			// The loop over places given up is one of these, at most 2*3+64.
			if n := l.fieldsRead(func() { l.withdraw("ann", 1, false) }); n > few+70 {
				t.Errorf("a handoff made %d lookups, want at most %d", n, few+70)
			}
			if worst > few {
				t.Errorf("a withdrawal made %d lookups, want at most %d", worst, few)
			}
			l.attempt("bob", 1, driver.Terms{}, driver.Granted)
			l.withdraw("bob", 1, false)
			l.attempt("eve", many, driver.Terms{}, driver.Granted)
		})
	}
}

// fieldsReadBy runs f and counts only if asked to: counting costs two round trips.
func (l *layout) fieldsReadBy(asked bool, f func()) int {
	l.t.Helper()
	if !asked {
		f()
		return 0
	}
	return l.fieldsRead(f)
}

// TestQueueKeepsItsOrder: hundreds of claims are queued, most of them are withdrawn again,
// from any place, and the rest are granted in the order in which they came, whichever claims
// were moved.
func TestQueueKeepsItsOrder(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	// The name has the seed, so that CI does not excuse a failure by a second try with another.
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { queueKeepsItsOrder(t, seed) })
}

func queueKeepsItsOrder(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 0))
	l := newLayout(t)
	l.open("ann")
	l.open("bob")
	l.attempt("ann", 1, driver.Terms{}, driver.Granted)
	const many = 600
	var queue []uint64
	for seq := uint64(1); seq <= many; seq++ {
		terms := driver.Terms{}
		if dice.IntN(3) == 0 {
			terms.MaxHold = time.Minute // has no short form
		}
		l.attempt("bob", seq, terms, driver.Queued)
		queue = append(queue, seq)
	}
	// A round begins when more places than that are given up, and takes a few withdrawals.
	room := func(taken int64) int64 { return 2*taken + 64 + 20 }
	moved := false
	for len(queue) > 40 {
		i := dice.IntN(len(queue))
		l.withdraw("bob", queue[i], false)
		queue = slices.Delete(queue, i, i+1)
		first, last, taken := l.queue()
		moved = moved || last < many
		if last-first > room(taken) || taken != int64(len(queue)) {
			t.Fatalf("the queue goes from place %d to %d with %d taken, and %d wait", first, last, taken, len(queue))
		}
	}
	if !moved {
		t.Error("the queue was never compacted")
	}
	st, err := l.store.Inspect(l.ctx, "x")
	l.must(err)
	var shown []uint64
	for _, w := range st.Waiters {
		shown = append(shown, w.Claim.Seq)
	}
	if !slices.Equal(shown, queue) {
		t.Fatalf("Inspect shows %v, want %v", shown, queue)
	}
	l.withdraw("ann", 1, false)
	for _, seq := range queue {
		l.attempt("bob", seq, driver.Terms{}, driver.Granted)
		l.withdraw("bob", seq, false)
	}
	l.want("all were granted", "m", "c", "sann", "sbob")
}

// TestQueueWrittenByHand: with a wrong number of taken places every claim is still granted,
// and above all the server does not loop forever.
func TestQueueWrittenByHand(t *testing.T) {
	t.Parallel()
	for _, reentry := range []string{"", "r"} { // the fast path and the slow path
		t.Run(fmt.Sprintf("re-entry %q", reentry), func(t *testing.T) {
			t.Parallel()
			l := newLayout(t)
			for _, who := range []string{"ann", "bob", "eve"} {
				l.open(who)
			}
			l.attempt("ann", 1, driver.Terms{Reentry: reentry}, driver.Granted)
			l.attempt("bob", 1, driver.Terms{}, driver.Queued)
			raw, err := l.plain.HGet(l.ctx, l.bucket, "qx").Bytes()
			l.must(err)
			binary.BigEndian.PutUint16(raw[16:], 9)
			l.must(l.plain.HSet(l.ctx, l.bucket, "qx", raw).Err())
			l.withdraw("ann", 1, false)
			l.attempt("bob", 1, driver.Terms{}, driver.Granted)
			l.attempt("eve", 1, driver.Terms{}, driver.Queued)
			l.withdraw("bob", 1, false)
			l.attempt("eve", 1, driver.Terms{}, driver.Granted)
			l.withdraw("eve", 1, false)
			l.want("all were granted", "m", "c", "sann", "sbob", "seve")
		})
	}
}
