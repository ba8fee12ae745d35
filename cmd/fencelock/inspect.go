// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
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
	"github.com/spf13/cobra"
)

func (a *app) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect LOCK",
		Short: "Show one lock: who holds it, since when, why, and who waits",
		Long: `Show one lock: who holds it, since when and why, its fencing token, and the queue
of waiters, in the order in which they will get it.

A holder that lives renews after a third of its TTL, so "ends in" rises again. If it
only falls, the holder is dead, stopped or cut off from the store, and the lock is free
when it reaches zero.

A name that no client uses is shown as free, too: copy the name from fencelock ls.

The exit code is 0 even if the lock is free, and 69 if the store did not answer.`,
		Example: `  fencelock inspect nightly-report
  fencelock inspect nightly-report -o json | jq -r '.holders[].token'`,
		ValidArgsFunction: a.completeLocks,
		Args:              exactly(1, "the name of a lock"),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.inspect(cmd.Context(), args[0]) },
	}
	a.formatFlag(cmd, "table", "json")
	return cmd
}

func (a *app) inspect(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer a.close(conn)
	st, err := conn.client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if a.format == "json" {
		return printJSON(a.out, lockview.LockOf(st))
	}
	if lockview.State(&st) == "free" && conn.Caps().Listing {
		names := map[string]bool{}
		within, cancel := context.WithTimeout(ctx, a.timeout)
		for lock, err := range conn.client.List(within, name+"@") {
			if err != nil {
				break // it is only a hint
			}
			names[text.Clean(lock.Name)] = true
		}
		cancel()
		if hint := occurrencesOf(name, maps.Keys(names)); hint != "" {
			a.note("%s is free%s", name, hint)
		}
	}
	return writeInspection(a.out, st, terminalWidth(a.out))
}

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
	return "; run --once-per has recorded " + strings.Join(found[max(0, len(found)-3):], ", ")
}

// writeInspection is the view for people.
func writeInspection(w io.Writer, st fencelock.Status, width int) error {
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
			t.add(fmt.Sprintf("  %d", i+1), waiter.Record.Owner, kindOf(waiter.Mode, waiter.Weight), "waiting "+text.Short(waiter.Age), waiter.Record.Reason)
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
