// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"time"
)

// WatchKey is how the record of a watched claim begins: of one whose session is to be notified
// of claims that wait behind it. The value is how long the claim may linger, in microseconds.
// The record is the one text of a claim that every statement carries from the queue to the
// holder's column, so no table needs another column, and a version that does not know the key
// ignores it. The statements compare the beginning of the text; in what a caller wrote it
// cannot occur there.
const WatchKey = `{"watch":`

// withWatch returns the record, in JSON, of a claim that is watched.
func withWatch(record string, linger time.Duration) string {
	rest := strings.TrimPrefix(record, "{")
	if rest != "}" {
		rest = "," + rest
	}
	return WatchKey + strconv.FormatInt(linger.Microseconds(), 10) + rest
}

func (c *Claim) watched() bool { return strings.HasPrefix(c.Record, WatchKey) }

// linger returns how long the claim may linger.
func (c *Claim) linger() time.Duration {
	if !c.watched() || c.Shared {
		return 0
	}
	var r struct {
		Watch int64 `json:"watch"`
	}
	_ = json.Unmarshal([]byte(c.Record), &r) // a row that something else wrote may have any text
	return micros(max(0, r.Watch))
}

// watch makes a grant watched if the claim that is attempted again, or reclaimed, is.
func (g *Claim) watch(c *Claim) {
	if c.watched() && !g.watched() {
		g.Record = c.Record
	}
}

// Notices returns the watched grants that a claim waits behind now, and did not before: the
// queue was empty, or the grant was not there or not watched.
func (l *Lock) Notices(before *Lock) (notices []Push) {
	if len(l.Queue) == 0 {
		return nil
	}
	for _, g := range l.Grants {
		if !g.watched() || g.Session == "" {
			continue
		}
		i := find(before.Grants, g.Session, g.Seq)
		if i < 0 || !before.Grants[i].watched() || len(before.Queue) == 0 {
			notices = append(notices, Push{Session: g.Session, Seq: g.Seq})
		}
	}
	return notices
}

// HandoffKey is the key of that number, the last one of a record.
const HandoffKey = "handoff"

// WithHandoffLock returns a record with the number of a handoff lock: of a named lock that the claim's process
// has until the claim is gone. The record has none yet. It is in the record because that goes
// with a claim from the queue to the holder's columns.
func WithHandoffLock(record string, id int64) string {
	rest, ok := strings.CutSuffix(record, "}")
	if !ok || id == 0 {
		return record
	}
	if rest != "{" {
		rest += ","
	}
	return rest + `"` + HandoffKey + `":` + strconv.FormatInt(id, 10) + "}"
}

// HandoffLockOf returns the handoff lock in a record; 0 for none.
func HandoffLockOf(record string) int64 {
	var r struct {
		HandoffLock int64 `json:"handoff"`
	}
	_ = json.Unmarshal([]byte(record), &r) // one that cannot be read has none
	return r.HandoffLock
}

// HandoffLocksBefore returns the handoff locks of the claims before a queued claim, the nearest first and the only
// holder last; 0 for a claim without one. It reads the records as far as it is asked.
func (st *State) HandoffLocksBefore(session string, seq uint64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		i := find(st.Queue, session, seq)
		for j := i - 1; j >= 0; j-- {
			if !yield(HandoffLockOf(st.Queue[j].Record)) {
				return
			}
		}
		if i >= 0 && len(st.Grants) == 1 && st.Grants[0].Session != "" {
			yield(HandoffLockOf(st.Grants[0].Record))
		}
	}
}
