// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencelock/fencelock/driver"
)

// MaxWatches bounds the number of series.
const MaxWatches = 200

// minEvery is twice as long as FencelockJobMissed of alerts.yaml waits.
const minEvery = 2 * time.Minute

// Watch is a lock that an operator named, or all locks whose names begin with a prefix.
type Watch struct {
	// Name is the name, or the prefix if Prefix is set.
	Name   string
	Prefix bool
	// Held and Waiting are how long a client may hold the lock or wait for it; 0 is any time.
	Held, Waiting time.Duration
	// Every is the period of "fencelock run --once-per", 0 if the lock is not that of a job. By is how
	// long after the beginning of a period the job must have begun at the latest.
	Every, By time.Duration
}

// Label is the name of the watch in metrics.
func (w *Watch) Label() string {
	if w.Prefix {
		return w.Name + "*"
	}
	return w.Name
}

// Parse reads a watch: limits, and then the name. A * at its end stands for any rest.
//
//	held=10m waiting=1m deploy/*
//	every=24h by=4h nightly-report
func Parse(text string) (w Watch, err error) {
	limits := map[string]*time.Duration{"held": &w.Held, "waiting": &w.Waiting, "every": &w.Every, "by": &w.By}
	words := strings.Fields(text)
	rest := strings.TrimSpace(text)
	for len(words) > 0 {
		key, value, isLimit := strings.Cut(words[0], "=")
		limit := limits[key]
		if !isLimit || limit == nil && len(words) == 1 { // the name
			break
		}
		if limit == nil {
			return w, fmt.Errorf("%q: unknown limit %s; use held, waiting, every and by, and then the name", text, key)
		}
		if *limit != 0 {
			return w, fmt.Errorf("%q: %s is there twice", text, key)
		}
		if *limit, err = time.ParseDuration(value); err != nil || *limit <= 0 {
			return w, fmt.Errorf("%q: %s takes a time such as 90s", text, key)
		}
		rest, words = strings.TrimSpace(strings.TrimPrefix(rest, words[0])), words[1:]
	}
	for _, word := range words { // such a name would be watched, and its limit ignored
		if key, _, isLimit := strings.Cut(word, "="); isLimit && limits[key] != nil {
			return w, fmt.Errorf("%q: write %s= before the name", text, key)
		}
	}
	w.Name, w.Prefix = strings.CutSuffix(rest, "*")
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(rest, unicode.IsControl):
		return w, fmt.Errorf("%q: a name is UTF-8 without control characters", text)
	case rest == "" || len(rest) > driver.MaxNameBytes:
		return w, fmt.Errorf("%q: give the name of a lock of at most %d bytes at the end", text, driver.MaxNameBytes)
	case w.Every > 0 && w.Prefix:
		return w, fmt.Errorf("%q: every is for the job of one name, not for a prefix", text)
	case w.Every > 0 && w.Every < minEvery: // a missed run must last longer than the alert waits
		return w, fmt.Errorf("%q: every is %v or longer; watch a job that runs more often by its own metrics", text, minEvery)
	case w.Every > 0 && w.Every%time.Second != 0:
		return w, fmt.Errorf("%q: every takes whole seconds", text)
	case w.By > 0 && w.Every == 0:
		return w, fmt.Errorf("%q: by needs every", text)
	case w.By > w.Every:
		return w, fmt.Errorf("%q: by is a time after the beginning of a period, and shorter than every", text)
	}
	return w, nil
}

// ParseAll reads watches. Two must not have one name, because they would have the same series.
func ParseAll(texts []string) ([]Watch, error) {
	var all []Watch
	seen := map[string]bool{}
	for _, text := range texts {
		w, err := Parse(text)
		switch {
		case err != nil:
			return nil, err
		case seen[w.Label()]:
			return nil, fmt.Errorf("%q is there twice; write its limits in one line", w.Label())
		}
		seen[w.Label()] = true
		all = append(all, w)
	}
	if len(all) > MaxWatches {
		return nil, fmt.Errorf("%d locks are watched; at most %d can be, so name a prefix with * instead", len(all), MaxWatches)
	}
	return all, nil
}

// Lines returns the watches of a file: one a line, without empty lines and those that begin
// with #.
func Lines(path string) (lines []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(text) > 1<<20 {
		return nil, errors.New(path + " is longer than a megabyte")
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}
