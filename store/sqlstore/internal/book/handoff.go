// SPDX-License-Identifier: Apache-2.0

package book

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

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
func (b *Book) HandoffLocksBefore(session string, seq uint64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		i := find(b.Queue, session, seq)
		for j := i - 1; j >= 0; j-- {
			if !yield(HandoffLockOf(b.Queue[j].Record)) {
				return
			}
		}
		if i >= 0 && len(b.Grants) == 1 && b.Grants[0].Session != "" {
			yield(HandoffLockOf(b.Grants[0].Record))
		}
	}
}
