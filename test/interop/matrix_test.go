// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// results are what the cells of this run came to: a row for each cell, a column for each
// version.
var results matrix

// row names a cell of a format.
type row struct{ format, what, holder, waiter string }

// matrix has the outcome of cells.
type matrix struct {
	mu       sync.Mutex
	outcomes map[row]map[string]string
}

// The outcomes of a cell. impossible is not a failure: the version has not got it.
const (
	yes        = "yes"
	failed     = "**no**"
	impossible = "–"
)

// note notes the outcome of a cell.
func (m *matrix) note(r row, version, outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outcomes == nil {
		m.outcomes = map[row]map[string]string{}
	}
	if m.outcomes[r] == nil {
		m.outcomes[r] = map[string]string{}
	}
	m.outcomes[r][version] = outcome
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

// counts returns how many cells were played, and how many of them failed.
func (m *matrix) counts() (played, bad int) {
	for _, by := range m.outcomes {
		for _, outcome := range by {
			if outcome != impossible {
				played++
			}
			if outcome == failed {
				bad++
			}
		}
	}
	return played, bad
}

// family is a library in several versions, with the rows of its formats.
type family struct {
	versions []string
	rows     []row
}

// families are in the order of the page.
func families() []family {
	return []family{{versions, everyCell()}, {[]string{springVersion}, springRows()}, {setNXVersions(), setNX}, {[]string{redsyncVersion}, redlockRows()}, {curatorVersions, everyTreeCell()}}
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

const heading = `# Interoperability

Use this page to see which locks were shared with another library, in which versions. Each cell was played by real processes of both
sides: ` + "`make interop`" + ` wrote this page. [redisson.md](redisson.md), [setnx.md](setnx.md) and [curator.md](curator.md) explain what is shared.

- *excluded*: the waiter cannot take the lock. *woken*: the waiter is woken by a message when the holder unlocks, not by a poll.
- *yes* passed, **no** failed, – this version has not got it, *not played*: no result yet.
`

// keep takes over from a page what was not played in this run, so that versions can be run one after
// the other.
func (m *matrix) keep(page string) {
	title := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if t, ok := strings.CutPrefix(line, "## "); ok {
			title = t
		}
		words, versions := strings.Split(strings.Trim(line, "| "), " | "), versionsOf(title)
		if title == "" || len(words) != 3+len(versions) {
			continue
		}
		r := row{title, words[0], words[1], words[2]}
		for i, v := range versions {
			if m.outcomes[r][v] == "" && slices.Contains([]string{yes, failed, impossible}, words[3+i]) {
				m.note(r, v, words[3+i])
			}
		}
	}
}

// write writes the page.
func (m *matrix) write(path string) error {
	if old, err := os.ReadFile(path); err == nil {
		m.keep(string(old))
	}
	var b strings.Builder
	b.WriteString(heading)
	for _, f := range families() {
		m.writeFamily(&b, f)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func (m *matrix) writeFamily(b *strings.Builder, f family) {
	title := ""
	for _, r := range f.rows {
		if r.format != title {
			title = r.format
			fmt.Fprintf(b, "\n## %s\n\n| | Holder | Waiter | %s |\n|%s\n", title, strings.Join(f.versions, " | "), strings.Repeat(" --- |", 3+len(f.versions)))
		}
		fmt.Fprintf(b, "| %s | %s | %s |", r.what, r.holder, r.waiter)
		for _, v := range f.versions {
			outcome := m.outcomes[r][v]
			if outcome == "" {
				outcome = "not played"
			}
			fmt.Fprintf(b, " %s |", outcome)
		}
		b.WriteString("\n")
	}
}
