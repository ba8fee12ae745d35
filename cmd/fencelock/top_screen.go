// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// topScreen is what top shows. It knows neither terminal nor store.
type topScreen struct {
	server        string
	every         time.Duration
	width, height int
	order         lockview.Order
	locks         []fencelock.Status
	grace         time.Duration // how long no new lock is granted
	err           error
	at            time.Time // of the last poll that succeeded
	chosen        string    // name of the lock under the cursor
	detail        bool
	paused        bool
	renewals      lockview.Renewals
}

var (
	bold   = lipgloss.NewStyle().Bold(true)
	dim    = lipgloss.NewStyle().Faint(true)
	alarm  = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
	notice = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	cursor = lipgloss.NewStyle().Reverse(true)
)

// took takes what a poll returned. After an error the last picture stays, marked.
func (s *topScreen) took(locks []fencelock.Status, err error, at time.Time) {
	s.err = err
	if err != nil {
		return
	}
	s.locks, s.at = lockview.CleanAll(locks), at
	s.sort()
	s.renewals.Note(locks)
}

// troubled reports whether a holder has not renewed for half of its TTL.
func (s *topScreen) troubled(st *fencelock.Status) bool { return s.renewals.Troubled(st) }

// press takes a key and reports whether it is the end.
func (s *topScreen) press(key string) (quit bool) {
	switch key {
	case "q", "ctrl+c":
		return true
	case "esc":
		s.detail = false
	case "enter":
		s.detail = s.chosen != ""
	case "p":
		s.paused = !s.paused
	case "c", "a", "e":
		s.order = map[string]lockview.Order{"c": lockview.Contended, "a": lockview.OldestFirst, "e": lockview.Ending}[key]
		s.sort()
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	}
	return false
}

func (s *topScreen) index() int {
	return slices.IndexFunc(s.locks, func(st fencelock.Status) bool { return st.Name == s.chosen })
}

func (s *topScreen) move(by int) {
	if len(s.locks) > 0 {
		s.chosen = s.locks[min(max(s.index()+by, 0), len(s.locks)-1)].Name
	}
}

func (s *topScreen) sort() { lockview.Sort(s.locks, s.order) }

// render draws the screen.
func (s *topScreen) render() string {
	lines := []string{s.header(), s.subheader(), ""}
	room := max(s.height-len(lines)-1, 3)
	i := s.index()
	switch {
	case s.detail && i >= 0:
		var b strings.Builder
		_ = writeLock(&b, s.locks[i], s.width)
		body := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		for _, line := range body[:min(len(body), room)] {
			lines = append(lines, cut(line, s.width))
		}
		if more := len(body) - room; more > 0 {
			lines[len(lines)-1] = dim.Render(cut(fmt.Sprintf("… %d more lines; fencelock why shows all", more+1), s.width))
		}
	case s.detail:
		lines = append(lines, cut(s.chosen+" is free now", s.width))
	case len(s.locks) == 0 && !s.at.IsZero():
		lines = append(lines, "no lock is held or waited for")
	case len(s.locks) > 0:
		lines = append(lines, s.rows(room)...)
	}
	for len(lines) < s.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, dim.Render(cut(s.keys(), s.width))), "\n")
}

func (s *topScreen) header() string {
	held, waiting, contended, troubled := 0, 0, 0, 0
	for i := range s.locks {
		if s.troubled(&s.locks[i]) {
			troubled++
		}
		if len(s.locks[i].Holders) > 0 {
			held++
		}
		if s.locks[i].Waiting > 0 {
			contended++
		}
		waiting += s.locks[i].Waiting
	}
	text := fmt.Sprintf("%s  %d held, %d contended, %d waiting", s.server, held, contended, waiting)
	if troubled > 0 {
		text += fmt.Sprintf(", %d not renewed", troubled)
	}
	return bold.Render("fencelock top") + "  " + cut(text, s.width-15)
}

func (s *topScreen) subheader() string {
	switch {
	case s.err != nil && s.at.IsZero():
		return alarm.Render(cut("the store does not answer: "+text.OneLine(s.err), s.width))
	case s.err != nil:
		return alarm.Render(cut(fmt.Sprintf("the store does not answer; this is from %s: %s", s.at.Format(time.TimeOnly), text.OneLine(s.err)), s.width))
	case s.grace > 0 && !s.paused:
		return notice.Render(cut(lockview.GraceLine(s.grace), s.width))
	case s.paused:
		return notice.Render("paused; this is from " + s.at.Format(time.TimeOnly))
	case s.at.IsZero():
		return dim.Render("reading the store ...")
	}
	return dim.Render(fmt.Sprintf("%s, every %v, %s first", s.at.Format(time.TimeOnly), s.every, cmp.Or(s.order, lockview.Contended)))
}

func (s *topScreen) keys() string {
	if s.detail {
		return "q quit  esc back  p pause"
	}
	return "q quit  c contended  a oldest  e ending  ↑↓ choose  enter show  p pause"
}

// rows draws the list, scrolled so that the cursor is on it.
func (s *topScreen) rows(room int) []string {
	at := s.index()
	first := max(min(at-room/2, len(s.locks)-room+1), 0)
	shown := s.locks[first:min(first+room-1, len(s.locks))]
	t := &table{width: s.width}
	t.add(columns(s.width, "NAME", "HOLDER", "AGE", "ENDS IN", "WAITING", "LONGEST", "REASON")...)
	for i := range shown {
		row := listRow(&shown[i], false)
		longest := "-"
		if shown[i].Waiting > 0 {
			longest = text.Short(lockview.Waited(&shown[i]))
		}
		row = slices.Insert(row, 5, longest)
		row[0], row[1] = cut(row[0], max(s.width/4, 12)), cut(row[1], max(s.width/4, 12))
		t.add(columns(s.width, row...)...)
	}
	var b strings.Builder
	_ = t.write(&b)
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = cut(lines[i], s.width)
		switch {
		case i == 0:
			lines[i] = bold.Render(lines[i])
		case at >= 0 && first+i-1 == at:
			lines[i] = cursor.Render(lines[i] + strings.Repeat(" ", max(s.width-lipgloss.Width(lines[i]), 0)))
		default:
			lines[i] = s.shade(&shown[i-1], lines[i])
		}
	}
	return lines
}

// columns leaves out what a narrow terminal has no room for.
func columns(width int, all ...string) []string {
	switch {
	case width >= 90:
		return all
	case width >= 66:
		return append(all[:5:5], all[6]) // without the longest wait
	}
	return []string{all[0], all[1], all[2], all[4]}
}

func (s *topScreen) shade(st *fencelock.Status, line string) string {
	switch {
	case s.troubled(st):
		return alarm.Render(line)
	case st.Waiting > 0:
		return notice.Render(line)
	case lockview.State(st) == "kept":
		return dim.Render(line)
	}
	return line
}
