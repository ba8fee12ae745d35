// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
)

// Coverage counts what really happened in runs. A simulator that never does a
// thing is a check that cannot fail. The zero value is ready.
type Coverage struct {
	mu     sync.Mutex
	counts map[string]int
}

// add counts one more of something.
func (c *Coverage) add(what string) { c.addN(what, 1) }

func (c *Coverage) addN(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[what] += n
}

// Merge adds the counts of another.
func (c *Coverage) Merge(o *Coverage) {
	o.mu.Lock()
	counts := maps.Clone(o.counts)
	o.mu.Unlock()
	for what, n := range counts {
		c.addN(what, n)
	}
}

// event is the hook that the clients call.
func (c *Coverage) event(e fencelock.Event) {
	what := "event: " + e.Kind.String()
	if e.Kind == fencelock.LeaseLost {
		for _, why := range lostFor {
			if errors.Is(e.Err, why) {
				what = lost(why)
			}
		}
	}
	c.add(what)
}

// lostFor are the reasons for which a lease can be lost.
var lostFor = []error{fencelock.LossUnrenewed, fencelock.LossStoreReset, fencelock.LossMaxHold, fencelock.ErrClosed, fencelock.LossSessionEnded, fencelock.LossForceUnlock}

// lost is what is counted for a lease that was lost for a reason.
func lost(why error) string { return "lost: " + strings.TrimPrefix(why.Error(), "fencelock: ") }

// answer counts what became of an acquisition.
func (c *Coverage) answer(o op, err error) {
	how := "lock"
	switch {
	case o.name.Kind == SemaphoreName:
		how = "semaphore"
	case o.mode == driver.Shared:
		how = "read lock"
	}
	if o.try {
		how = "try " + how
	}
	c.add("op: " + how)
	for _, opt := range []struct {
		set  bool
		what string
	}{{o.keep > 0, "op: with MinHold"}, {o.fixed > 0, "op: with MaxHold"}, {o.as != "", "op: with ReentrantAs"}, {o.linger > 0, "op: with Linger"}} {
		if opt.set {
			c.add(opt.what)
		}
	}
	answer := "other"
	switch {
	case err == nil:
		answer = "granted"
	case errors.Is(err, fencelock.ErrBusy):
		answer = "busy"
	case errors.Is(err, fencelock.ErrGrace):
		answer = "grace"
	case errors.Is(err, fencelock.ErrUnavailable):
		answer = "unavailable"
	case errors.Is(err, fencelock.ErrClosed):
		answer = "closed"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		answer = "gave up"
	}
	c.add("answer: " + answer)
}

// joined counts the acquisitions that share the token of another by their id.
func (c *Coverage) joined(h *History) {
	as := map[int]string{}
	seen := map[string]bool{}
	for _, e := range h.Events {
		switch {
		case e.Kind == Called && e.Reentry != "":
			as[e.Acq] = e.Name + " " + e.Reentry
		case e.Kind == Returned && e.OK && as[e.Acq] != "":
			key := fmt.Sprint(as[e.Acq], e.Token)
			if seen[key] {
				c.add("joined")
			}
			seen[key] = true
		}
	}
}

// count adds what is known only at the end of a run.
func (c *Coverage) count(w *world) {
	c.add("weather: " + w.s.Weather.String())
	c.joined(w.rec.h)
	for _, p := range w.procs {
		struck := 0
		for kind, n := range p.net.Injected() {
			c.addN("fault: "+string(kind), n)
			struck += n
		}
		if p.plan.Cut != "" && struck > 0 {
			c.add("outage: " + p.plan.Cut)
		}
	}
	for _, e := range w.rec.h.Events {
		switch e.Kind {
		case Marked:
			if !e.OK {
				c.add("once: unconfirmed mark")
			}
		case Killed, Closing, LostData, Restored, Restarted, Stepped:
			c.add("happened: " + e.Kind.String())
		case Downgraded:
			if e.OK {
				c.add("downgraded")
			} else {
				c.add("not downgraded")
			}
		case Read, Wrote:
			if !e.OK {
				c.add("fence: refused")
			} else {
				c.add("fence: accepted")
			}
		}
	}
}

// wanted is what every longer run must have seen at least once.
func wanted() []string {
	want := []string{
		"op: lock", "op: try lock", "op: read lock", "op: try read lock", "op: semaphore", "op: try semaphore",
		"op: with MinHold", "op: with MaxHold", "op: with ReentrantAs", "op: with Linger", "op: lock all", "op: downgrade",
		"reentered", "jolted", "unlocked during a downgrade", "joined", "downgraded", "not downgraded",
		"operator: broke", "operator: limited",
		"once: ran", "once: already ran", "once: running elsewhere", "once: failed", "answer: granted all",
		"answer: granted", "answer: busy", "answer: grace", "answer: unavailable", "answer: closed", "answer: gave up",
		"happened: killed", "happened: closing", "happened: lost data", "happened: restored", "happened: restarted",
		"happened: stepped", "fence: accepted", "fence: refused", "unfenced overlaps",
		"weather: calm", "weather: deaf", "weather: data loss", "weather: storm", "weather: haze",
		"weather: outage", "outage: open", "outage: reclaim", "outage: withdraw", "suspended", "tens of leases",
		"election: led", "election: lost", "election: resigned", "election: observed", "once: unconfirmed mark",
		"notice: lost", "notice: twice", "notice: late", "gave way",
		"renewal: definite error", "session: gone", "left: a session", "left: tombstones",
	}
	for _, k := range []fencelock.EventKind{fencelock.SessionOpened, fencelock.SessionRenewalFailed, fencelock.SessionReset, fencelock.SessionResumed,
		fencelock.SessionLost, fencelock.SessionClosed, fencelock.LeaseWaiting, fencelock.LeaseGranted, fencelock.LeaseHandedOff, fencelock.LeaseReleased,
		fencelock.ClaimWithdrawn, fencelock.LeaseRecalled} {
		want = append(want, "event: "+k.String())
	}
	for _, why := range lostFor {
		want = append(want, lost(why))
	}
	for _, k := range []faultstore.Kind{faultstore.LostRequest, faultstore.LostReply, faultstore.Delayed,
		faultstore.Duplicated, faultstore.Refused, faultstore.Failed, faultstore.LostAll, faultstore.LostSome, faultstore.Stepped,
		faultstore.Paused, faultstore.CutOff, faultstore.Late} {
		want = append(want, "fault: "+string(k))
	}
	return want
}

// Missing returns what never happened although it should have.
func (c *Coverage) Missing() (missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range wanted() {
		if c.counts[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// String returns the counts as a table.
func (c *Coverage) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		fmt.Fprintf(&b, "%10d  %s\n", c.counts[what], what)
	}
	return b.String()
}
