// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestReentryCostsLittle: a re-entrant lock that is free is acquired and released by the short scripts, with one command more
// than a plain lock that scripts acquire and release. Every lock of the API for other languages is one.
func TestReentryCostsLittle(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	p.proven = true
	must.OK(t, p.write(t.Context()))
	w := newWorld(t, p, newStoreIn(t, client, p.namespace+scripted, false), nil)
	w.open(0, time.Second)
	seq := w.procs[0].seq
	const pairs = 20
	cost := func(reentry string) int {
		before := commandsDone(t, p)
		for range pairs {
			seq++
			w.attempt(0, &driver.Claim{Seq: seq, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Reentry: reentry, Record: &driver.Record{}}})
			w.withdraw(0, driver.Withdrawal{Seq: seq, Name: "a"})
		}
		return commandsDone(t, p) - before
	}
	plain, reentrant := cost(""), cost("r")
	if reentrant > plain+pairs+2 {
		t.Errorf("%d locks and unlocks take %d commands, and %d with a re-entry; want one more each", pairs, plain, reentrant)
	}
}
