// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

const heading = `# Interoperability

Use this page to see which locks were shared with another library, in which versions. Each cell was played with the other library itself, on
real servers: ` + "`make interop`" + ` wrote this page. [sharing.md](../../docs/sharing.md) explains what is shared.

- *excluded*: the waiter cannot take the lock. *woken*: the waiter is woken by a message or a watch when the holder unlocks, not by a poll. On
  Redis and ZooKeeper the unlock comes when the waiter has found the lock held and listens or watches.
- *killed* is SIGKILL and *paused* is SIGSTOP of a separate process, in Go, Java or another language. In all other cells Go is a client inside the
  test program, and so are the Go libraries redsync, redislock and ` + "`zk.Lock`" + `. *lease ends*: the other library does not renew, as a dead process does not.
- *yes* passed, **no** failed, – this version has not got it, *overlap*: the two libraries do not exclude each other
  ([sharing.md](../../docs/sharing.md#curator)), which the run showed, *not played*: no result yet.
- Not on this page: how soon a waiter is woken, as a multiple of a handoff inside Java (` + "`make figures-interop`" + `,
  [figures](evidence.md)); with SET NX and Redlock, a waiter that is killed or paused (it polls, and no process waits for it), and a
  server that restarts or whose replies are lost (tests of package setnxstore).
`

// The lines of the page that say which run a cell is of: those with a mark are of an earlier one.
const (
	playedLine = "- Played on "
	keptLine   = "- Cells with "
	keptOn     = " were played on "
)

// write writes the page of a run that began at a time. It keeps of the page that is there, and of others, what was not played in
// this run, so that versions can be run one after the other, and on several machines.
func (m *matrix) write(path string, began time.Time, others ...string) error {
	for _, file := range append([]string{path}, others...) {
		text, err := os.ReadFile(file)
		if err != nil && (file != path || !os.IsNotExist(err)) {
			return err
		}
		m.keep(string(text))
	}
	return os.WriteFile(path, []byte(m.page(stamp(began)+m.commit)), 0o644)
}

// stamp is how the page writes a time: as text it is ordered as the times are.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// keep takes over from a page what this run did not play. Of two pages the later run counts.
func (m *matrix) keep(page string) {
	title, latest, marked := "", unknown, map[string]string{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if t, ok := strings.CutPrefix(line, "## "); ok {
			title = t
		}
		if text, ok := strings.CutPrefix(line, playedLine); ok {
			latest, _, _ = strings.Cut(text, ".")
		}
		if text, ok := strings.CutPrefix(line, keptLine); ok {
			mark, when, _ := strings.Cut(strings.TrimSuffix(text, "."), keptOn)
			marked[mark] = when
		}
		words, versions := strings.Split(strings.Trim(line, "| "), " | "), versionsOf(title)
		if title == "" || len(words) != 3+len(versions) {
			continue
		}
		r := row{title, words[0], words[1], words[2]}
		if !onPage(r) {
			continue // a cell that was played once, and is not any more
		}
		for i, v := range versions {
			word, mark, isMarked := strings.Cut(words[3+i], " ")
			when := latest
			if isMarked {
				when = cmp.Or(marked[mark], unknown)
			}
			if slices.Contains([]string{yes, failed, impossible, overlapped}, word) {
				m.keepCell(r, v, outcome{word, when})
			}
		}
	}
}

// keepCell keeps an outcome unless there is one of a later run.
func (m *matrix) keepCell(r row, version string, o outcome) {
	has, ok := m.outcomes[r][version]
	if ok && (has.kept == "" || o.kept == unknown || has.kept != unknown && has.kept >= o.kept) {
		return
	}
	m.set(r, version, o)
}

// page returns the text of the page.
func (m *matrix) page(began string) string {
	runs := m.runs()
	var b strings.Builder
	b.WriteString(heading)
	if c := m.counts(); c.played > 0 {
		fmt.Fprintf(&b, "%s%s. Cells: %d, failed: %d.\n", playedLine, began, c.played, c.failed)
	} else if len(runs) > 0 {
		fmt.Fprintf(&b, "%s%s.\n", playedLine, runs[0])
		runs = runs[1:]
	}
	marks := map[string]string{}
	for i, when := range runs {
		marks[when] = fmt.Sprintf("(%d)", i+1)
		fmt.Fprintf(&b, "%s%s%s%s.\n", keptLine, marks[when], keptOn, when)
	}
	for _, f := range families() {
		m.writeFamily(&b, f, marks)
	}
	return b.String()
}

// runs returns the earlier runs that cells were kept of, the latest first.
func (m *matrix) runs() (all []string) {
	for _, by := range m.outcomes {
		for _, o := range by {
			if o.kept != "" && o.word != impossible && !slices.Contains(all, o.kept) {
				all = append(all, o.kept)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		switch {
		case a == unknown:
			return 1
		case b == unknown:
			return -1
		}
		return strings.Compare(b, a)
	})
	return all
}

func (m *matrix) writeFamily(b *strings.Builder, f family, marks map[string]string) {
	title := ""
	for _, r := range f.rows {
		if r.format != title {
			title = r.format
			fmt.Fprintf(b, "\n## %s\n\n| | Holder | Waiter | %s |\n|%s\n", title, strings.Join(f.versions, " | "), strings.Repeat(" --- |", 3+len(f.versions)))
		}
		fmt.Fprintf(b, "| %s | %s | %s |", r.what, r.holder, r.waiter)
		for _, v := range f.versions {
			fmt.Fprintf(b, " %s |", m.outcomes[r][v].text(marks))
		}
		b.WriteString("\n")
	}
}

// text is what the page shows of a cell.
func (o outcome) text(marks map[string]string) string {
	switch mark := marks[o.kept]; {
	case o.word == "":
		return "not played"
	case mark == "" || o.word == impossible:
		return o.word
	default:
		return o.word + " " + mark
	}
}

// TestPageNamesTheRunOfEachCell: what a run did not play is neither counted nor shown as if it had.
func TestPageNamesTheRunOfEachCell(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 16, hour, 0, 0, 0, time.UTC) }
	a, b, c := setNX[0], setNX[1], setNX[2]
	v := setNXVersions()
	write := func(began time.Time, page string, cells map[row]string, others ...string) (counts, string) {
		t.Helper()
		var m matrix
		for r, word := range cells {
			m.note(r, v[0], word)
		}
		must.OK(t, m.write(page, began, others...))
		text, err := os.ReadFile(page)
		must.OK(t, err)
		return m.counts(), string(text)
	}
	has := func(page string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !strings.Contains(page, line) {
				t.Errorf("the page lacks %q:\n%s", line, page)
			}
		}
	}
	dir := t.TempDir()
	one, two := dir+"/one.md", dir+"/two.md"
	if got, _ := write(at(8), one, map[row]string{a: yes, b: failed}); got != (counts{played: 2, failed: 1}) {
		t.Errorf("the first run counts %+v", got)
	}
	got, page := write(at(9), one, map[row]string{b: yes})
	if got != (counts{played: 1, kept: 1}) {
		t.Errorf("the second run counts %+v", got)
	}
	has(page, "- Played on 2026-11-16 09:00 UTC. Cells: 1, failed: 0.", "- Cells with (1) were played on 2026-11-16 08:00 UTC.",
		"| excluded | fencelock | other | yes (1) |", "| excluded | other | fencelock | yes |", "| holder paused | fencelock | other | not played |")
	write(at(10), two, map[row]string{a: failed, c: yes})
	got, page = write(at(11), one, nil, two)
	if got != (counts{kept: 3, keptFailed: 1}) {
		t.Errorf("pages that are only merged count %+v", got)
	}
	has(page, "- Played on 2026-11-16 10:00 UTC", "- Cells with (1) were played on 2026-11-16 09:00 UTC.",
		"| excluded | fencelock | other | **no** |", "| excluded | other | fencelock | yes (1) |", "| holder paused | fencelock | other | yes |")
	must.OK(t, os.WriteFile(two, []byte(strings.ReplaceAll(page, playedLine, "- ")), 0o644)) // as pages were before they had this line
	_, page = write(at(12), two, map[row]string{b: yes})
	has(page, "(1) were played on "+unknown, "| excluded | fencelock | other | **no** (1) |")
}

// TestPageDropsCellsThatAreNotPlayedAnyMore: they are neither counted nor a run that the page names.
func TestPageDropsCellsThatAreNotPlayedAnyMore(t *testing.T) {
	var m matrix
	m.note(setNX[0], setNXVersions()[0], yes)
	old := m.page("2026-11-16 08:00 UTC")
	line := "| excluded | fencelock | other |"
	var next matrix
	next.note(setNX[0], setNXVersions()[0], yes)
	next.keep(strings.Replace(old, line, strings.Replace(line, "excluded", "held in an earlier test", 1), 1))
	if got := next.counts(); got != (counts{played: 1}) {
		t.Errorf("the run counts %+v", got)
	}
	if text := next.page("2026-11-16 09:00 UTC"); strings.Contains(text, "08:00") {
		t.Errorf("the page names a run of which it has no cell:\n%s", text)
	}
}
