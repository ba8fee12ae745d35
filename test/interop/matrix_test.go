// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"sync"
	"testing"
)

// results are what the cells of this run came to: a row for each cell, a column for each
// version.
var results matrix

// row names a cell of a format.
type row struct{ format, what, holder, waiter string }

// outcome is what came of a cell.
type outcome struct {
	word string // yes, failed or impossible
	// kept is when the run began that the outcome was kept of, or unknown. It is empty for this run.
	kept string
}

// matrix has the outcome of cells.
type matrix struct {
	mu       sync.Mutex
	outcomes map[row]map[string]outcome
}

// The words of an outcome. impossible is not a failure: the version has not got it.
const (
	yes        = "yes"
	failed     = "**no**"
	impossible = "–"
)

// unknown stands for a run of which the page does not say when it was. It is before all others.
const unknown = "an earlier day"

// note notes the outcome of a cell in this run.
func (m *matrix) note(r row, version, word string) { m.set(r, version, outcome{word: word}) }

func (m *matrix) set(r row, version string, o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outcomes == nil {
		m.outcomes = map[row]map[string]outcome{}
	}
	if m.outcomes[r] == nil {
		m.outcomes[r] = map[string]outcome{}
	}
	m.outcomes[r][version] = o
}

// noteTest notes the outcome of the test t, when it has ended. A test that was skipped is not
// noted.
func (m *matrix) noteTest(t *testing.T, r row, version string) {
	t.Cleanup(func() {
		switch {
		case t.Failed():
			m.note(r, version, failed)
		case !t.Skipped():
			m.note(r, version, yes)
		}
	})
}

// counts are of cells. An impossible one does not count.
type counts struct{ played, failed, kept, keptFailed int }

// counts returns how many cells this run played and how many it kept of earlier runs.
func (m *matrix) counts() (c counts) {
	for _, by := range m.outcomes {
		for _, o := range by {
			bad := 0
			if o.word == failed {
				bad = 1
			}
			switch {
			case o.word == impossible:
			case o.kept == "":
				c.played, c.failed = c.played+1, c.failed+bad
			default:
				c.kept, c.keptFailed = c.kept+1, c.keptFailed+bad
			}
		}
	}
	return c
}

// family is a library in several versions, with the rows of its formats.
type family struct {
	versions []string
	rows     []row
}

// families are in the order of the page.
func families() []family {
	return []family{{versions, everyCell()}, {[]string{springVersion}, springRows()}, {setNXVersions(), setNX}, {[]string{redsyncVersion}, redlockRows()}, {curatorVersions, everyTreeCell()},
		{etcdVersions(), etcdRows()}}
}

// versionsOf returns the columns of a format.
func versionsOf(format string) []string {
	for _, f := range families() {
		if slices.ContainsFunc(f.rows, func(r row) bool { return r.format == format }) {
			return f.versions
		}
	}
	return nil
}
