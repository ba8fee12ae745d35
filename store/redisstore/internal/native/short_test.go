// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestShortPartsPay: the parts of attempt.lua and withdraw.lua that stand before the library spare the server at least 15 % of its
// time for a lock that is waited for. Otherwise they would have to go: everything they do, the rest does, too.
func TestShortPartsPay(t *testing.T) {
	for _, file := range []string{"attempt", "withdraw"} {
		raw, err := os.ReadFile("lua/" + file + ".lua")
		must.OK(t, err)
		first, _ := native.Source(file, string(raw))
		one, other := newScriptTimer(t, nil), newScriptTimer(t, strings.NewReplacer(first, ""))
		with, without := math.Inf(1), math.Inf(1)
		for range 10 { // in turn, and the least of each: the machine may have something else to do
			with, without = min(with, one.round()), min(without, other.round())
		}
		spared := 100 * (without - with) / without
		t.Logf("%s: %.1f µs a call, %.1f without its short part", file, with, without)
		figure.Print("redis-short-"+file+"-spares-percent", spared, figure.AtLeast(15))
		if spared < 15 {
			t.Errorf("the short part of %s.lua spares the server %.0f %% of its time", file, spared)
		}
	}
}

var usecPerCall = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`)

// scriptTimer measures the scripts while two processes pass a lock to each other.
type scriptTimer struct {
	w   *world
	seq uint64
}

// newScriptTimer makes one with a server of its own; mutant changes the scripts.
func newScriptTimer(t *testing.T, mutant *strings.Replacer) *scriptTimer {
	t.Helper()
	p, client := newPretense(t, redistest.Start(t).Addr)
	p.proven, p.mutant = true, mutant
	w := newWorld(t, p, newStoreIn(t, client, p.namespace+scripted, false), nil)
	w.must(p.write(w.ctx))
	w.open(0, time.Second) // the clock stands still
	w.open(1, time.Second)
	return &scriptTimer{w: w}
}

func (m *scriptTimer) pass() {
	m.seq++
	w := m.w
	one, other := w.procs[m.seq%2].real, w.procs[(m.seq+1)%2].real
	claim := &driver.Claim{Seq: m.seq, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "orders-7"}}}
	_, err := one.Attempt(w.ctx, claim)
	w.must(err)
	if m.seq > 1 {
		_, err = other.Withdraw(w.ctx, driver.Withdrawal{Seq: m.seq - 1, Name: "a"})
		w.must(err)
		_, err = one.Await(w.ctx, claim) // so that its process knows that it holds the lock
		w.must(err)
	}
}

// round returns how many µs the server needed for a script in 200 passes.
func (m *scriptTimer) round() float64 {
	w := m.w
	w.must(w.p.plain.ConfigResetStat(w.ctx).Err())
	for range 200 {
		m.pass()
	}
	info, err := w.p.plain.Info(w.ctx, "commandstats").Result()
	w.must(err)
	found := usecPerCall.FindStringSubmatch(info)
	if found == nil {
		w.t.Fatalf("no script was called: %s", info)
	}
	usec, err := strconv.ParseFloat(found[1], 64)
	w.must(err)
	return usec
}
