// SPDX-License-Identifier: Apache-2.0

package book

import (
	"encoding/json"
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

// BellBefore returns the bell of the claim that a queued claim waits for: the one before it
// in the queue, or the only holder. It is 0 without one.
func (b *Book) BellBefore(session string, seq uint64) int64 {
	i := find(b.Queue, session, seq)
	switch {
	case i > 0:
		return BellOf(b.Queue[i-1].Record)
	case i == 0 && len(b.Grants) == 1 && b.Grants[0].Session != "":
		return BellOf(b.Grants[0].Record)
	}
	return 0
}
