// SPDX-License-Identifier: Apache-2.0

// Package text writes for people who do not program in Go, on a terminal.
package text

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/fencelock/fencelock"
)

// Clean makes a text safe to show. Owners, reasons and labels are written by other
// programs: an escape sequence in one would move the cursor, a line break would begin
// another row, and a mark of writing direction would reverse the text beside it. -o json
// does not need this, because JSON escapes such characters.
func Clean(s string) string {
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

// OneLine is the text of an error in one line: several errors stand in several. What the
// library writes for Go programs is left out or named as the command names it, and a text
// that a store and the library both put before the reason is not repeated.
func OneLine(err error) string {
	s := strings.ReplaceAll(Plain(err.Error()), "\n", "; ")
	if once, rest, found := strings.Cut(s, unavailable); found {
		s = once + unavailable + strings.ReplaceAll(rest, unavailable, "")
	}
	return Clean(s)
}

// Plain leaves out what the library writes for Go programs, or names it as the command does.
// Names of packages are left out, too: the command writes its own prefix.
func Plain(s string) string {
	s = packageNames.ReplaceAllString(s, "$1")
	return goOption.ReplaceAllStringFunc(goAdvice.ReplaceAllString(s, ""), func(option string) string {
		return cmp.Or(settingOf[strings.TrimPrefix(option, "Options.")], option)
	})
}

var (
	// packageNames are those that our errors begin with, wherever an error begins inside a text.
	packageNames = regexp.MustCompile(`(^|: |\n|; )(?:(?:(?:otel)?fencelock|quorum|shard|both|[a-z]+(?:store|quorum|fence)): )+`)
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

// Short writes a duration for people: the two largest units that matter.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
