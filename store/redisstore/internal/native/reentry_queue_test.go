// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// reenter attempts a claim for the lock x with a re-entry.
func (l *layout) reenter(who string, seq uint64, reentry string, queue bool) driver.Outcome {
	l.t.Helper()
	out, err := l.on[who].Attempt(l.ctx, &driver.Claim{Seq: seq, Name: "x", Queue: queue,
		Terms: &driver.Terms{Weight: 1, Reentry: reentry, Record: &driver.Record{Owner: who}}})
	l.must(err)
	return out
}

// serverTime is how long the server has worked on scripts, in µs, and how many it has run.
func (l *layout) serverTime() (usec, calls float64) {
	l.t.Helper()
	text, err := l.plain.Info(l.ctx, "commandstats").Result()
	l.must(err)
	m := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),usec=(\d+)`).FindStringSubmatch(text)
	if m == nil {
		l.t.Fatal("no script has run")
	}
	calls, _ = strconv.ParseFloat(m[1], 64)
	usec, _ = strconv.ParseFloat(m[2], 64)
	return usec, calls
}

// TestAttemptBehindAReentrantHolderDoesNotGrow: an attempt costs the server the same, however many wait for a lock whose
// holder may be re-entered.
func TestAttemptBehindAReentrantHolderDoesNotGrow(t *testing.T) {
	t.Parallel()
	l := newEagerLayout(t)
	l.open("ann")
	l.reenter("ann", 1, "mine", true)
	seq := uint64(2)
	attempt := func(waiters uint64) (least float64) {
		for ; seq < waiters+2; seq++ {
			if seq%250 == 0 { // on a slow machine all of them take longer than a session lasts
				_, err := l.on["ann"].KeepAlive(t.Context())
				must.OK(t, err)
			}
			if out := l.reenter("ann", seq, fmt.Sprint("other ", seq), true); out.State != driver.Queued {
				t.Fatal(out.State)
			}
		}
		least = math.Inf(1)
		for range 150 { // the machine may stand still in most of them, so each is short
			usec, calls := l.serverTime()
			for i := range uint64(4) {
				if out := l.reenter("ann", 1_000_000+i, "another", false); out.State != driver.Busy {
					t.Fatal(out.State)
				}
			}
			after, n := l.serverTime()
			least = min(least, (after-usec)/(n-calls))
		}
		return least
	}
	few, many := attempt(10), attempt(3000)
	t.Logf("an attempt takes the server %.1f µs with 10 waiters and %.1f µs with 3,000", few, many)
	figure.Print("redis-reentry-queue-growth", many/few, figure.AtMost(1.5))
	if many/few > 1.5 {
		t.Errorf("an attempt takes the server %.1f times as long with 3,000 waiters as with 10", many/few)
	}
}

// TestQueuedClaimsReenter: claims in the queue join a holder with their re-entry when it is granted the lock. One that is far
// back joins with its next poll.
func TestQueuedClaimsReenter(t *testing.T) {
	t.Parallel()
	l := newEagerLayout(t)
	l.open("ann")
	l.open("bob")
	l.reenter("ann", 1, "", true)
	first := uint64(2)
	at := map[uint64]string{first: "mine", first + 1: "mine", first + 200: "mine", first + 400: "mine"}
	for seq := first; seq <= first+400; seq++ {
		re := at[seq]
		if re == "" {
			re = fmt.Sprint("other ", seq)
		}
		l.reenter("bob", seq, re, true)
	}
	l.withdraw("ann", 1, false)
	holders := func(want int) (token driver.Token) {
		t.Helper()
		st, err := l.store.Inspect(l.ctx, "x")
		l.must(err)
		if len(st.Holders) != want {
			t.Fatalf("%d claims hold the lock, want %d", len(st.Holders), want)
		}
		for _, h := range st.Holders {
			if token == 0 {
				token = h.Token
			}
			if h.Token != token {
				t.Errorf("tokens %v and %v", token, h.Token)
			}
		}
		return token
	}
	token := holders(3)
	if out := l.reenter("bob", first+400, "mine", true); out.State != driver.Granted || out.Token != token {
		t.Errorf("a claim far back is %v with token %v", out.State, out.Token)
	}
	holders(4)
	for seq := range at {
		_, err := l.on["bob"].Withdraw(l.ctx, driver.Withdrawal{Seq: seq, Name: "x"})
		l.must(err)
	}
	if after := holders(1); after <= token {
		t.Errorf("token %v after %v", after, token)
	}
}

// TestReentryAfterWhatWasKept: a claim that could not join, because a grant was only kept, joins when that has ended.
func TestReentryAfterWhatWasKept(t *testing.T) {
	t.Parallel()
	l := newEagerLayout(t)
	l.open("ann")
	l.reenter("ann", 1, "mine", true)
	l.reenter("ann", 2, "mine", true)
	_, err := l.on["ann"].Withdraw(l.ctx, driver.Withdrawal{Seq: 1, Name: "x", KeepFor: 200 * time.Millisecond})
	l.must(err)
	if out := l.reenter("ann", 3, "mine", true); out.State != driver.Queued {
		t.Skip("the machine is too slow")
	}
	redistest.WaitFor(t, "the claim joins", func() bool {
		st, err := l.store.Inspect(l.ctx, "x")
		l.must(err)
		return len(st.Holders) == 2 && st.Waiting == 0
	})
}
