// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"os"
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

const heading = `# Interoperability

Use this page to see which locks were shared with another library, in which versions. Each cell was played by real processes of both
sides: ` + "`make interop`" + ` wrote this page. [redisson.md](redisson.md) explains what is shared.

- *excluded*: the waiter cannot take the lock. *woken*: the waiter is woken by a message when the holder unlocks, not by a poll.
- *yes* passed, **no** failed, – this version has not got it.
`

// write writes the page.
func (m *matrix) write(path string) error {
	var b strings.Builder
	b.WriteString(heading)
	title := ""
	for _, r := range everyCell() {
		if r.format != title {
			title = r.format
			fmt.Fprintf(&b, "\n## %s\n\n| | Holder | Waiter | %s |\n|%s\n", title, strings.Join(versions, " | "), strings.Repeat(" --- |", 3+len(versions)))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |", r.what, r.holder, r.waiter)
		for _, v := range versions {
			outcome := m.outcomes[r][v]
			if outcome == "" {
				outcome = "not played"
			}
			fmt.Fprintf(&b, " %s |", outcome)
		}
		b.WriteString("\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
