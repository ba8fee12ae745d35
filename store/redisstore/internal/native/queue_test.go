// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// keyCalls counts the commands on keys that scripts and transactions make while f runs.
func (l *layout) keyCalls(f func()) (calls int) {
	l.t.Helper()
	l.must(l.plain.ConfigResetStat(l.ctx).Err())
	f()
	text, err := l.plain.Info(l.ctx, "commandstats").Result()
	l.must(err)
	for _, m := range regexp.MustCompile(`cmdstat_[hlrz](?:get|mget|set|del|exists|scan|index|pos|push|pop|range|rem|len|move|score|add|count)\w*:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		calls += n
	}
	return calls
}

// TestQueueLeavesNoGaps: one claim waits for long, and hundreds come and go behind it. No call
// makes more commands for them.
func TestQueueLeavesNoGaps(t *testing.T) {
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
			const many, few = 1000, 40
			for seq := uint64(2); seq < many; seq++ {
				l.attempt("eve", seq, driver.Terms{}, driver.Queued)
				if seq%100 != 0 { // counting costs two round trips
					l.withdraw("eve", seq, false)
				} else if n := l.keyCalls(func() { l.withdraw("eve", seq, false) }); n > few {
					t.Errorf("a withdrawal made %d commands, want at most %d", n, few)
				}
			}
			l.attempt("eve", many, driver.Terms{}, driver.Queued)
			if all := l.elements("x"); len(all) != 6 {
				t.Errorf("the list has %d elements, want the holder and two claims, with their tickets", len(all))
			}
			if n := l.keyCalls(func() {
				st, err := l.store.Inspect(l.ctx, "x")
				l.must(err)
				if st.Waiting != 2 || len(st.Waiters) != 2 || st.Waiters[1].Claim.Seq != many {
					t.Errorf("Inspect shows %d waiting, %+v", st.Waiting, st.Waiters)
				}
			}); n > few {
				t.Errorf("Inspect made %d commands, want at most %d", n, few)
			}
			if n := l.keyCalls(func() { l.attempt("new", 1, driver.Terms{}, driver.Queued) }); n > few {
				t.Errorf("queueing made %d commands, want at most %d", n, few)
			}
			if n := l.keyCalls(func() { l.withdraw("ann", 1, false) }); n > few {
				t.Errorf("a handoff made %d commands, want at most %d", n, few)
			}
			l.attempt("bob", 1, driver.Terms{}, driver.Granted)
			l.withdraw("bob", 1, false)
			l.attempt("eve", many, driver.Terms{}, driver.Granted)
		})
	}
}

// TestQueueKeepsItsOrder: hundreds of claims are queued, most of them are withdrawn again,
// from any position, and the rest are granted in the order in which they came.
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
	last := l.attempt("ann", 1, driver.Terms{}, driver.Granted)
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
	for len(queue) > 40 {
		i := dice.IntN(len(queue))
		l.withdraw("bob", queue[i], false)
		queue = slices.Delete(queue, i, i+1)
		if n := len(l.elements("x")); n != 2+2*len(queue) {
			t.Fatalf("the list has %d elements, and %d claims wait", n, len(queue))
		}
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
		token := l.attempt("bob", seq, driver.Terms{}, driver.Granted)
		if token <= last {
			t.Fatalf("token %v after %v", token, last)
		}
		last = token
		l.withdraw("bob", seq, false)
	}
	l.want("all were granted", "m", "v", ":s", "sann", "sbob")
}

// TestListWrittenByHand: with elements in a list that do not belong there every claim is still
// granted, and above all the server does not loop forever.
func TestListWrittenByHand(t *testing.T) {
	t.Parallel()
	for _, reentry := range []string{"", "r"} { // the fast path and the slow path
		for what, rubbish := range map[string][]any{
			"tickets":                     {"1", "2", "3"},
			"a claim without a ticket":    {"Q" + string(make([]byte, 42)) + "{}"},
			"a claim of an unknown past":  {"1", "X" + string(make([]byte, 42)) + "{}"},
			"tickets and claims, swapped": {"Q" + string(make([]byte, 42)) + "{}", "7", "X" + string(make([]byte, 42)) + "{}", "8"},
		} {
			t.Run(fmt.Sprintf("re-entry %q/%s", reentry, what), func(t *testing.T) {
				t.Parallel()
				l := newLayout(t)
				for _, who := range []string{"ann", "bob", "eve"} {
					l.open(who)
				}
				l.attempt("ann", 1, driver.Terms{Reentry: reentry}, driver.Granted)
				l.must(l.plain.RPush(l.ctx, l.list("x"), rubbish...).Err())
				l.attempt("bob", 1, driver.Terms{}, driver.Queued)
				l.must(l.plain.RPush(l.ctx, l.list("x"), rubbish...).Err())
				l.withdraw("ann", 1, false)
				l.attempt("bob", 1, driver.Terms{}, driver.Granted)
				l.attempt("eve", 1, driver.Terms{}, driver.Queued)
				l.withdraw("bob", 1, false)
				l.attempt("eve", 1, driver.Terms{}, driver.Granted)
				l.withdraw("eve", 1, false)
				l.want("all were granted", "m", "v", ":s", "sann", "sbob", "seve")
			})
		}
	}
}

// TestStoreKeepsNoSession: a session that has ended in the store, was lost or could not be closed is not kept in memory
// when its process drops it. A quorum goes on under another id, and closes none of them.
func TestStoreKeepsNoSession(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	open := func(id driver.SessionID) driver.Session {
		s, _, err := l.store.Open(l.ctx, driver.OpenRequest{Shard: l.store.Shard("x"), ID: id, TTL: time.Minute})
		l.must(err)
		return s
	}
	ended := map[string]func(s driver.Session, id driver.SessionID) (got, want error){
		"ended": func(s driver.Session, id driver.SessionID) (error, error) {
			l.must(open(id).Close(l.ctx))
			_, err := s.KeepAlive(l.ctx)
			return err, driver.ErrGone
		},
		"not closed": func(s driver.Session, _ driver.SessionID) (error, error) {
			ctx, cancel := context.WithCancel(l.ctx)
			cancel()
			return s.Close(ctx), context.Canceled
		},
		"lost": func(s driver.Session, _ driver.SessionID) (error, error) {
			l.must(l.plain.FlushAll(l.ctx).Err())
			_, err := s.KeepAlive(l.ctx)
			return err, driver.ErrReset
		},
	}
	for how, end := range ended {
		gone := func() func() bool {
			id := driver.NewSessionID()
			s := open(id)
			if got, want := end(s, id); !errors.Is(got, want) {
				t.Fatalf("%s: %v, want %v", how, got, want)
			}
			return native.Freed(s)
		}()
		redistest.WaitFor(t, how+": the session is freed", func() bool { runtime.GC(); return gone() })
	}
	runtime.KeepAlive(l.store)
}

// TestSessionOpenedAgainLeavesNoSubscription: a process that opens its session again, as it does after
// a data loss until it succeeds, closes only the last one, and no subscription is left.
func TestSessionOpenedAgainLeavesNoSubscription(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	id, seq := driver.NewSessionID(), uint64(0)
	channels := func(want int) func() bool {
		return func() bool {
			all, err := l.plain.PubSubChannels(l.ctx, "*").Result()
			l.must(err)
			return len(all) == want
		}
	}
	var last driver.Session
	for range 3 {
		s, _, err := l.store.Open(l.ctx, driver.OpenRequest{Shard: l.store.Shard("x"), ID: id, Before: last, TTL: time.Minute, Contended: func(uint64) {}})
		l.must(err)
		seq++
		_, err = s.Attempt(l.ctx, &driver.Claim{Seq: seq, Name: fmt.Sprint("x", seq), Watch: true,
			Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		l.must(err)
		redistest.WaitFor(t, "the subscription for notices", channels(1))
		last = s
	}
	l.must(last.Close(l.ctx))
	redistest.WaitFor(t, "no subscription is left", channels(0))
}
