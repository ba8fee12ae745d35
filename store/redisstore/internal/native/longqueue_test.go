// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestClaimDeepInAQueueIsFoundAtOnce: a claim that polls or gives up knows its element, so that the
// server does not read the queue in front of it. All that wait poll, so with thousands of them
// reading would keep the server busy.
func TestClaimDeepInAQueueIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name  string
		terms driver.Terms
	}{
		{"exclusive", driver.Terms{Weight: 1}},
		{"shared", driver.Terms{Mode: driver.Shared, Weight: 1}},
		{"with MaxHold", driver.Terms{Weight: 1, MaxHold: time.Minute}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			p, client := newPretense(t, redistest.Start(t).Addr)
			p.proven = true
			must.OK(t, p.write(t.Context()))
			w := newWorld(t, p, newStoreIn(t, client, p.namespace, false), nil)
			w.open(0, time.Second)
			kind.terms.Record = &driver.Record{}
			claim := func(seq uint64, terms driver.Terms) *driver.Claim {
				return &driver.Claim{Seq: seq, Name: "a", Queue: true, Terms: &terms}
			}
			w.attempt(0, claim(1, driver.Terms{Weight: 1, Record: &driver.Record{}}))
			const last = 500 // five parts of the queue
			for seq := uint64(2); seq <= last; seq++ {
				w.attempt(0, claim(seq, kind.terms))
			}
			cost := func(seq uint64) int {
				before := commandsDone(t, p)
				w.attempt(0, claim(seq, kind.terms))
				w.withdraw(0, driver.Withdrawal{Seq: seq, Name: "a"})
				return commandsDone(t, p) - before
			}
			if first, deep := cost(2), cost(last); deep > first {
				t.Errorf("to poll and to give up takes %d commands in the server at the end of the queue, %d at its beginning", deep, first)
			}
		})
	}
}
