// SPDX-License-Identifier: Apache-2.0

package book

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// WithBell returns a record with the number of a bell: of a named lock that the claim's process
// has until the claim is gone. The record has none yet. It is in the record because that goes
// with a claim from the queue to the holder's columns.
func WithBell(record string, id int64) string {
	rest, ok := strings.CutSuffix(record, "}")
	if !ok || id == 0 {
		return record
	}
	if rest != "{" {
		rest += ","
	}
	return rest + `"bell":` + strconv.FormatInt(id, 10) + "}"
}

// BellOf returns the bell in a record; 0 for none.
func BellOf(record string) int64 {
	var r struct {
		Bell int64 `json:"bell"`
	}
	_ = json.Unmarshal([]byte(record), &r) // one that cannot be read has none
	return r.Bell
}

// BellsBefore returns the bells of the claims before a queued claim, the nearest first and the only
// holder last; 0 for a claim without one. It reads the records as far as it is asked.
func (b *Book) BellsBefore(session string, seq uint64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		i := find(b.Queue, session, seq)
		for j := i - 1; j >= 0; j-- {
			if !yield(BellOf(b.Queue[j].Record)) {
				return
			}
		}
		if i >= 0 && len(b.Grants) == 1 && b.Grants[0].Session != "" {
			yield(BellOf(b.Grants[0].Record))
		}
	}
}
