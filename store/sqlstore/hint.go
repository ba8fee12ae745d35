// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// hints are the locks of a session that an operator may have broken, each with the
// version of its row when the operator read it. The column has one line of JSON for each.
//
//	operator:  read row, version 7 ──▶ hint (x, 7) ─────────────▶ write row: version 8, marked
//	session:                              keep-alive: x has version 7, no mark: the hint stays
//	                                                                 keep-alive: marked: reported
//
// Without the version the first keep-alive would take the hint for one that came to
// nothing and drop it, and the holder would never be notified.
type hints map[string]int64

// readHints reads the column. What cannot be read is left out: no session could act on it.
func readHints(column string) hints {
	h := hints{}
	for line := range strings.SplitSeq(column, "\n") {
		var name string
		var version int64
		if json.Unmarshal([]byte(line), &[]any{&name, &version}) == nil {
			h[name] = max(h[name], version)
		}
	}
	return h
}

// text is the column for hints, "" for none.
func (h hints) text() string {
	var lines []string
	for name, version := range h {
		line, _ := json.Marshal([]any{name, version}) // both always have a JSON form
		lines = append(lines, string(line)+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// pending reports whether the operator may still write the lock that was read at a version.
func (l *loaded) pending(version int64) bool { return l.exists && l.version <= version }

// hint makes the next keep-alives of a session check whether a lock was broken.
func (s *Store) hint(ctx context.Context, sid string, generation int64, name string, version int64) error {
	_, err := s.changed(ctx, "hint", hints{name: version}.text(), sid, generation)
	return err
}
