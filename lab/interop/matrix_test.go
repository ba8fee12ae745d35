// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

// results are what the cells of this run came to: a row for each cell, a column for each
// version.
var results matrix

// row names a cell of a format.
type row struct{ format, what, holder, waiter string }

// outcome is what came of a cell.
type outcome struct {
	word string // yes, failed, impossible or overlapped
	// kept is when the run began that the outcome was kept of, or unknown. It is empty for this run.
	kept string
}

// matrix has the outcome of cells.
type matrix struct {
	mu       sync.Mutex
	outcomes map[row]map[string]outcome
	commit   string // of fencelock, as it follows the time on the page; tests of the page have none
}

// The words of an outcome. Two are not failures: impossible, the version has not got it, and overlapped, the two libraries do not
// exclude each other, as their pages say, and the run showed it.
const (
	yes        = "yes"
	failed     = "**no**"
	impossible = "–"
	overlapped = "overlap"
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

// counts are of cells. An impossible one does not count, nor one of libraries that do not exclude each other.
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
			case o.word == impossible || o.word == overlapped:
			case o.kept == "":
				c.played, c.failed = c.played+1, c.failed+bad
			default:
				c.kept, c.keptFailed = c.kept+1, c.keptFailed+bad
			}
		}
	}
	return c
}

// print prints the figures of a run.
func (m *matrix) print(c counts) {
	figure.Print("interop-cells", c.played, figure.AtLeast(1))
	figure.Print("interop-cells-failed", c.failed, figure.Exactly(0))
	figure.Print("interop-cells-kept", c.kept, figure.Bound{})
	figure.Print("interop-cells-kept-failed", c.keptFailed, figure.Exactly(0))
	if *page != "" {
		figure.Print("interop-cells-missing", len(m.missing()), figure.Exactly(0))
	}
}

// missing returns the cells of the page without an outcome.
func (m *matrix) missing() (all []string) {
	for _, f := range families() {
		for _, r := range f.rows {
			for _, v := range f.versions {
				if m.outcomes[r][v].word == "" {
					all = append(all, fmt.Sprintf("%s, %s, %s: holder %s, waiter %s", r.format, v, r.what, r.holder, r.waiter))
				}
			}
		}
	}
	return all
}

// TestKeptCells prints the figures of the page that is kept, and fails if it lacks a cell, or if a cell failed.
func TestKeptCells(t *testing.T) {
	if !*figures {
		t.Skip("run it with -interop.figures")
	}
	var m matrix
	text, err := os.ReadFile("../results/interop.md")
	must.OK(t, err)
	m.keep(string(text))
	c := m.counts()
	fmt.Println("kept: the cells of lab/results/interop.md, played on", strings.Join(m.runs(), " and on "))
	figure.Print("interop-cells", c.kept, figure.AtLeast(1))
	figure.Print("interop-cells-failed", c.keptFailed, figure.Exactly(0))
	missing := m.missing()
	figure.Print("interop-cells-missing", len(missing), figure.Exactly(0))
	if c.kept == 0 || c.keptFailed > 0 {
		t.Errorf("%d of %d cells failed", c.keptFailed, c.kept)
	}
	for _, cell := range missing {
		t.Error("not played: ", cell)
	}
}

// family is a library in several versions, with the rows of its formats.
type family struct {
	versions []string
	rows     []row
}

// families are in the order of the page.
func families() []family {
	return []family{
		{versions, append(rowsOf(redissonTables), onACluster...)}, {[]string{springVersion}, rowsOf(springTables)}, {setNXVersions(), setNX},
		{[]string{redsyncVersion}, redlockRows()}, {curatorVersions, append(rowsOf(curatorTables), alikeRows()...)}, {etcdVersions(), rowsOf([]table{etcdTable})},
	}
}

// onPage reports whether the page has a row.
func onPage(r row) bool {
	return slices.ContainsFunc(families(), func(f family) bool { return slices.Contains(f.rows, r) })
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
