// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// clean makes a text safe to show. Owners, reasons and labels are written by other
// programs: an escape sequence in one would move the cursor, a line break would begin
// another row, and a mark of writing direction would reverse the text beside it. -o json
// does not need this, because JSON escapes such characters.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// unprefixed is the text of an error without the names of packages: the command writes its
// own prefix.
func unprefixed(err error) string { return driver.Inner(err).Error() }

// oneLine is the text of an error in one line: several errors stand in several. What the
// library writes for Go programs is left out or named as the command names it, and a text
// that a store and the library both put before the reason is not repeated.
func oneLine(err error) string {
	s := strings.ReplaceAll(withoutGo(unprefixed(err)), "\n", "; ")
	if once, rest, found := strings.Cut(s, unavailable); found {
		s = once + unavailable + strings.ReplaceAll(rest, unavailable, "")
	}
	return clean(s)
}

// withoutGo leaves out what the library writes for Go programs, or names it as the command
// does.
func withoutGo(s string) string {
	return goOption.ReplaceAllStringFunc(goAdvice.ReplaceAllString(s, ""), func(option string) string {
		return cmp.Or(settingOf[strings.TrimPrefix(option, "Options.")], option)
	})
}

var (
	// goAdvice is what a Go program would set or call, beside the parameter of a URL.
	goAdvice = regexp.MustCompile(` \((?:Options[.{]|in Go: |with MaxHold: )[^)]*\)`)
	goOption = regexp.MustCompile(`\bOptions\.[A-Z]\w*`)
	// settingOf has the flag or the parameter of a URL that sets an option.
	settingOf = map[string]string{"TTL": "--ttl", "CallTimeout": "--timeout", "Owner": "--owner",
		"Grace": "grace=true", "MaxTTL": "max_ttl", "MinTTL": "min_ttl", "TickTime": "tick_time", "Buckets": "buckets", "Accept": "accept",
		"Namespace": "namespace", "Prefix": "namespace", "Root": "namespace", "Timeout": "timeout", "Idle": "idle",
		"Auth": "user:password@ in the URL"}
	unavailable = fencelock.ErrUnavailable.Error()[len("fencelock: "):] + ": "
)

// shown is a lock with everything cleaned.
func shown(st fencelock.Status) fencelock.Status {
	st.Name = clean(st.Name)
	holders, waiters := st.Holders, st.Waiters
	st.Holders, st.Waiters = nil, nil
	for _, h := range holders {
		h.Record = cleanRecord(h.Record)
		st.Holders = append(st.Holders, h)
	}
	for _, w := range waiters {
		w.Record = cleanRecord(w.Record)
		st.Waiters = append(st.Waiters, w)
	}
	return st
}

func cleanRecord(r fencelock.Record) fencelock.Record {
	r.Owner, r.Reason, r.Trace = clean(r.Owner), clean(r.Reason), clean(r.Trace)
	labels := r.Labels
	r.Labels = nil
	for key, value := range labels {
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[clean(key)] = clean(value)
	}
	return r
}

// allShown cleans a listing.
func allShown(locks []fencelock.Status) []fencelock.Status {
	for i := range locks {
		locks[i] = shown(locks[i])
	}
	return locks
}
