// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// Disjoint is D3: the trusted times of two holders of a lock do not overlap. A
// trusted time begins when the acquisition returned and ends when the holder
// releases, is notified, reaches its deadline or is killed, whichever is first. A
// holder that a guard refuses in its trusted time shows the same: another client
// was let in with a greater token.
func Disjoint(hs []*hold, events []history.Event) []Violation {
	var vs []Violation
	for lock, mine := range byLock(hs) {
		var last *hold // of those before, the one that ends last
		for _, h := range mine {
			if h.end <= h.grant {
				continue // it came too late: its process was stopped before the call returned
			}
			if last != nil && h.grant < last.end {
				vs = append(vs, Violation{"D3", T, h.grant, fmt.Sprintf("%s was granted while %s trusted %s for another %s",
					h, last.who, lock, seconds(last.end-h.grant))})
			}
			if last == nil || h.end > last.end {
				last = h
			}
		}
	}
	// Where tokens are counted for each lock, as on SQL, two locks have the same numbers.
	type key struct {
		who, lock string
		token     int64
	}
	holder := map[key]*hold{}
	for _, h := range hs {
		holder[key{h.who, h.lock, h.token}] = h
	}
	for _, e := range events {
		if e.Kind != history.Refused {
			continue
		}
		if h := holder[key{e.Who, e.Lock, e.Token}]; h != nil && e.At < h.end {
			vs = append(vs, Violation{"D3", T, e.At, fmt.Sprintf("%s was refused by the guard %s before its trusted time ended: %s",
				h, seconds(h.end-e.At), e.Text)})
		}
	}
	return vs
}

// Notified is D7: a holder that runs is notified of its loss by its deadline, and
// before another client is granted the lock. A holder that was stopped, or whose
// process was, cannot be notified: such times are left out.
func Notified(hs []*hold, events []history.Event, lim Limits) []Violation {
	var vs []Violation
	fs := faults(events)
	for lock, mine := range byLock(hs) {
		for i, h := range mine {
			over := h.release
			if h.notified != 0 {
				over = h.notified
			}
			if over == 0 || stopped(fs, h.who, h.ask, over) {
				continue
			}
			if late := over - h.until; late > int64(lim.Notified) {
				vs = append(vs, Violation{"D7", N, over, fmt.Sprintf("%s went on for %s after its deadline", h, seconds(late))})
			}
			if i+1 < len(mine) && h.notified != 0 && h.notified-mine[i+1].grant > int64(lim.Late) {
				vs = append(vs, Violation{"D7", N, h.notified, fmt.Sprintf("%s was notified %s after %s had been granted %s",
					h, seconds(h.notified-mine[i+1].grant), mine[i+1].who, lock)})
			}
		}
	}
	return vs
}

// stopped reports whether a fault kept a client from running.
func stopped(fs []fault, who string, from, to int64) bool {
	for _, f := range fs {
		if f.who == who && f.from < to && f.until > from {
			return true
		}
	}
	return false
}
