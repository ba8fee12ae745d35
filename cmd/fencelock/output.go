// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// formatFlag adds -o with the formats a command knows; the first is the default.
func (a *app) formatFlag(cmd *cobra.Command, formats ...string) {
	var format string
	cmd.Flags().StringVarP(&format, "output", "o", formats[0], "how to print: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, format) {
			return usage("-o %s%s: it is one of %s", format, didYouMean(format, formats...), strings.Join(formats, ", "))
		}
		a.format = format
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// printJSON writes a value for programs and for people.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table writes rows in columns. On a terminal the last column is cut to fit.
type table struct {
	rows [][]string
	// width is that of the terminal, or far below zero without a terminal.
	width int
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		at := 0
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cut(cell, t.width-at))
				break
			}
			pad := widths[i] - lipgloss.Width(cell) + 2
			b.WriteString(cell + strings.Repeat(" ", pad))
			at += widths[i] + 2
		}
		line := strings.TrimRight(b.String(), " ")
		b.Reset()
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// cut shortens a text to a width in columns; a Chinese character takes two. Text that
// begins beyond the edge of the terminal, where the width is not positive, still shows a
// few characters. A width far below zero means that there is no terminal and nothing to cut.
func cut(s string, width int) string {
	if width < -1000 || lipgloss.Width(s) <= max(width, 8) {
		return s
	}
	width = max(width, 8)
	var b strings.Builder
	used := 0
	for _, r := range s {
		used += lipgloss.Width(string(r))
		if used > width-1 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// wrap breaks a text into lines of a width, all but the first indented so far; first is
// what the first line begins with. A width that is not positive breaks nothing.
func wrap(first, text string, indent, width int) string {
	if width <= 0 {
		return first + text + "\n"
	}
	var b strings.Builder
	line := first
	empty := true // but for what it begins with
	for word := range strings.FieldsSeq(text) {
		if !empty && lipgloss.Width(line)+1+lipgloss.Width(word) > width {
			b.WriteString(line + "\n")
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(line + "\n")
	return b.String()
}

// terminalWidth is the width of the terminal that w writes to, 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// newTable makes a table for stdout.
func (a *app) newTable(headings ...string) *table {
	t := &table{width: terminalWidth(a.out)}
	if t.width == 0 {
		t.width = -100000 // what goes to a file is not cut
	}
	t.add(headings...)
	return t
}
