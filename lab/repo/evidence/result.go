// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

// result is what a run left: the second line of its file, and the figures below.
type result struct {
	run     run
	commit  string // empty if it has not been run
	day     time.Time
	took    time.Duration
	load    string
	stolen  string // percent of the processors' time; empty if not known
	passed  bool
	figures []figure.Figure
}

func (r run) file() string { return filepath.Join(folder, r.Name+".txt") }

// line is what read reads.
func (r result) line() string {
	end := "failed"
	if r.passed {
		end = "passed"
	}
	line := fmt.Sprintf("%s, commit %s: %s in %d s, load %s before it", r.day.Format(time.DateOnly), r.commit, end, int(r.took.Seconds()), r.load)
	if r.stolen != "" {
		line += ", " + r.stolen + " % stolen"
	}
	return line
}

// read finds the figures in the output of a run. One that is printed twice is that of the last time.
func (r *result) read(output string) {
	r.figures = nil
	at := map[string]int{}
	for _, f := range figure.Find(output) {
		if i, ok := at[f.Name]; ok {
			r.figures[i] = f
			continue
		}
		at[f.Name] = len(r.figures)
		r.figures = append(r.figures, f)
	}
}

func (r result) write() error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n", r.run.Command, r.line())
	for _, f := range r.figures {
		fmt.Fprintln(&text, f)
	}
	return os.WriteFile(r.run.file(), []byte(text.String()), 0o644)
}

var written = regexp.MustCompile(`(?m)^(\d{4}-\d\d-\d\d), commit ([0-9a-f]+): (passed|failed) in (\d+) s, load (\S+) before it(?:, (\S+) % stolen)?$`)

// read returns what a run left, or a result without a commit.
func read(r run) (result, error) {
	res := result{run: r}
	text, err := os.ReadFile(r.file())
	if errors.Is(err, fs.ErrNotExist) {
		return res, nil
	}
	if err != nil {
		return res, err
	}
	m := written.FindStringSubmatch(string(text))
	if m == nil {
		return res, fmt.Errorf("%s has no line about the run; delete it", r.file())
	}
	res.commit, res.passed, res.load, res.stolen = m[2], m[3] == "passed", m[5], m[6]
	res.day, _ = time.Parse(time.DateOnly, m[1])
	res.took, err = time.ParseDuration(m[4] + "s")
	res.read(string(text))
	return res, err
}

// met counts the figures that meet their goals, and those that do not.
func (r result) met() (met, missed int) {
	for _, f := range r.figures {
		if f.Met() {
			met++
		} else {
			missed++
		}
	}
	return met, missed
}
