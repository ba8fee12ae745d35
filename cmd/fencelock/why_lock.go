// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// occurrencesOf names the latest occurrences of run --once-per that are kept beside a lock:
// they have their own names, which a user may not know.
func occurrencesOf(name string, locks iter.Seq[string]) string {
	var found []string
	for lock := range locks {
		start, of := strings.CutPrefix(lock, name+"@")
		if _, err := time.Parse(time.RFC3339, start); of && err == nil { // not user@host
			found = append(found, lock)
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return ""
	}
	return "run --once-per has recorded " + strings.Join(found[max(0, len(found)-3):], ", ")
}

// writeLock is the view of one lock for people.
func writeLock(w io.Writer, st fencelock.Status, width int) error {
	st = lockview.Clean(st)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", st.Name, summary(&st))
	if st.Grace > 0 {
		fmt.Fprintln(&b, lockview.GraceLine(st.Grace))
	}
	for i := range st.Holders {
		b.WriteByte('\n')
		writeHolder(&b, &st.Holders[i])
	}
	if st.MoreHolders > 0 {
		fmt.Fprintf(&b, "\nand %d more holders\n", st.MoreHolders)
	}
	if st.Waiting > 0 {
		fmt.Fprintf(&b, "\nqueue:\n")
		t := &table{width: width}
		if width == 0 {
			t.width = -100000
		}
		for i, waiter := range st.Waiters {
			t.add(fmt.Sprintf("  %d", i+1), waiter.Record.Owner, kindOf(waiter.Mode, waiter.Weight), "waiting "+text.Short(waiter.Age)+underWhom(&waiter), waiter.Record.Reason)
		}
		if err := t.write(&b); err != nil {
			return err
		}
		if more := st.Waiting - len(st.Waiters); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func summary(st *fencelock.Status) string {
	var parts []string
	switch lockview.State(st) {
	case "free":
		parts = append(parts, "free")
	case "waited":
		parts = append(parts, "not held")
	case "kept":
		parts = append(parts, "reserved, not held")
	default:
		parts = append(parts, fmt.Sprintf("held by %d", len(st.Holders)+st.MoreHolders))
	}
	if st.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", st.Waiting))
	}
	if st.Limit > 0 {
		parts = append(parts, fmt.Sprintf("stored limit %d", st.Limit))
	}
	return strings.Join(parts, ", ")
}

// underWhom names the holder under whose lock a waiter runs, if there is one.
func underWhom(w *fencelock.Waiter) string {
	if outer := w.Record.Labels[lockview.UnderLabel]; outer != "" {
		return ", for " + outer + ", under whose lock it runs"
	}
	return ""
}

func kindOf(mode fencelock.Mode, weight int64) string {
	if mode == fencelock.Shared && weight > 1 {
		return fmt.Sprintf("shared, weight %d", weight)
	}
	return mode.String()
}

func writeHolder(b *strings.Builder, h *fencelock.Holder) {
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(b, "  %-8s %s\n", key, value)
		}
	}
	line("holder", h.Record.Owner)
	line("reason", h.Record.Reason)
	line("mode", kindOf(h.Mode, h.Weight))
	line("for", cmp.Or(heldFor("", h.Age), "not known: the format of this lock has no time"))
	if h.Kept {
		line("reserved", text.Short(h.EndsIn)+" more")
	} else {
		line("ends in", text.Short(h.EndsIn)+" unless renewed")
	}
	if h.Linger > 0 {
		line("lingers", text.Short(h.Linger)+" after an unlock, free on request")
	}
	line("token", h.Token.String())
	for _, key := range slices.Sorted(maps.Keys(h.Record.Labels)) {
		line(key, h.Record.Labels[key])
	}
	line("trace", h.Record.Trace)
	line("session", h.Claim.Session.String())
}

// heldFor is for how long a lock is held, behind a word, and "" if the store does not know it.
func heldFor(word string, age time.Duration) string {
	if age <= 0 {
		return ""
	}
	return word + text.Short(age)
}
