// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/graph"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
)

func (a *app) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why [LOCK]",
		Short: "Show a lock, and explain who blocks whom and whether it is a deadlock",
		Long: `Show one lock: who holds it, since when and why, its fencing token, and the queue of
waiters, in the order in which they will get it. Then explain why it is not free: what the
holder itself waits for, who holds that, and so on to the end. Without a LOCK explain all
locks with waiters.

A holder that lives renews after a third of its TTL, so "ends in" rises again. If it
only falls, the holder is dead, stopped or cut off from the store, and the lock is free
when it reaches zero.

A name that no client uses is shown as free, too: copy the name from fencelock ls.

Processes that wait for each other in a circle (a deadlock) are named, and the exit code
is 1: they wait forever, unless one of them gives up. A program with several threads may
wait for one lock and go on with another, so check before you break a lock. Otherwise the
exit code is 0 even if the lock is free, and 69 if the store did not answer.

Processes are identified by their owner, user@host:pid unless --owner sets another.`,
		Example: `  fencelock why nightly-report
  fencelock why nightly-report -o json | jq -r '.locks[].holders[].token'
  fencelock why -o dot | dot -Tsvg >locks.svg`,
		ValidArgsFunction: a.completeLocks,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one LOCK at most")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var circles bool
			var err error
			if len(args) == 0 {
				circles, err = a.whyAll(cmd.Context())
			} else {
				circles, err = a.whyOne(cmd.Context(), args[0])
			}
			if err == nil && circles {
				err = exitSilently(exitFailed)
			}
			return err
		},
	}
	a.formatFlag(cmd, "table", "json", "dot")
	return cmd
}

// whyAll explains all locks that are waited for.
func (a *app) whyAll(ctx context.Context) (circles bool, err error) {
	locks, err := a.listing(ctx, lockview.Selection{})
	if err != nil {
		return false, err
	}
	return a.explainAll(locks, "")
}

// whyOne explains one lock. A store that cannot list its locks shows at least this one.
func (a *app) whyOne(ctx context.Context, name string) (circles bool, err error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return false, err
	}
	defer a.close(conn)
	st, err := conn.client.Inspect(ctx, name)
	if err != nil {
		return false, err
	}
	locks, err := (&lockview.Selection{}).Read(ctx, conn.client)
	if errors.Is(err, fencelock.ErrUnsupported) {
		a.note("this store cannot list its locks: what a holder itself waits for is not known")
	} else if err != nil {
		return false, err
	}
	locks = slices.DeleteFunc(locks, func(other fencelock.Status) bool { return other.Name == name })
	return a.explainAll(append(locks, st), name)
}

// explainAll prints who blocks whom, for one lock or all that are waited for, and reports
// whether there are circles.
func (a *app) explainAll(locks []fencelock.Status, one string) (circles bool, err error) {
	if a.format == "table" {
		lockview.CleanAll(locks)
		one = text.Clean(one)
	}
	g := graph.New(lockview.Parties(locks))
	byName := map[string]*fencelock.Status{}
	var names []string
	for i := range locks {
		st := &locks[i]
		byName[st.Name] = st
		if st.Name == one || one == "" && st.Waiting > 0 {
			names = append(names, st.Name)
		}
	}
	cycles := g.Cycles()
	switch a.format {
	case "json":
		err = printJSON(a.out, whyView(g, byName, names, cycles))
	case "dot":
		err = writeDot(a.out, locks)
	default:
		if one != "" {
			err = a.explainOne(g, byName, one)
		} else {
			a.explain(g, byName, names)
		}
		a.explainCycles(byName, cycles)
	}
	return len(cycles) > 0, err
}

// explainOne prints all there is to know of a lock.
func (a *app) explainOne(g *graph.Graph, byName map[string]*fencelock.Status, name string) error {
	st := byName[name]
	if err := writeLock(a.out, *st, terminalWidth(a.out)); err != nil {
		return err
	}
	switch lockview.State(st) {
	case "free":
		if recorded := occurrencesOf(name, maps.Keys(byName)); recorded != "" {
			fmt.Fprintln(a.out, recorded)
		}
	case "held":
		fmt.Fprintln(a.out, "\nwhy:")
		a.explainHolders(g, byName, name)
	}
	return nil
}

// maxWaitersShown keeps the words to a screen; why LOCK shows all.
const maxWaitersShown = 5

// explain prints some locks in few words.
func (a *app) explain(g *graph.Graph, byName map[string]*fencelock.Status, names []string) {
	if len(names) == 0 {
		fmt.Fprintln(a.out, "no client waits for a lock")
	}
	for i, name := range names {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		st := byName[name]
		fmt.Fprintf(a.out, "%s: %s\n", name, summary(st))
		if st.Grace > 0 {
			fmt.Fprintln(a.out, "  "+lockview.GraceLine(st.Grace))
		}
		a.explainHolders(g, byName, name)
		for i, w := range st.Waiters[:min(len(st.Waiters), maxWaitersShown)] {
			fmt.Fprintf(a.out, "  %d in queue: %s for %s%s\n", i+1, w.Record.Owner, text.Short(w.Age), underWhom(&w))
		}
		if more := st.Waiting - maxWaitersShown; more > 0 {
			fmt.Fprintf(a.out, "  and %d more in queue\n", more)
		}
		if k := keptBy(st); k != nil {
			fmt.Fprintf(a.out, "  not held; reserved for %s more, last by %s\n", text.Short(k.EndsIn), k.Record.Owner)
		}
	}
}

// explainCycles prints who waits for whom in a circle.
func (a *app) explainCycles(byName map[string]*fencelock.Status, cycles [][]graph.Step) {
	for _, c := range cycles {
		fmt.Fprintf(a.out, "\ncircle: %s\n", cycleInWords(c))
		last := c[len(c)-1]
		if h := holderNamed(byName[last.Lock], last.Holder); h != nil {
			fmt.Fprintf(a.out, "  to end it: stop one of them, or fencelock force-unlock %s --token %s --reason ...\n", last.Lock, h.Token)
		}
	}
}

// explainHolders prints what the holders of a lock wait for, who holds that, and so on.
func (a *app) explainHolders(g *graph.Graph, byName map[string]*fencelock.Status, name string) {
	g.Walk(name, func(depth int, s graph.Step, waits []string, seen graph.Seen) {
		a.explainStep(byName[s.Lock], depth, s, waits, seen)
	})
}

func (a *app) explainStep(st *fencelock.Status, depth int, s graph.Step, waits []string, seen graph.Seen) {
	indent := strings.Repeat("  ", depth+1)
	switch seen {
	case graph.Circle:
		fmt.Fprintf(a.out, "%s%s: held by %s, and so on in a circle\n", indent, s.Lock, s.Holder)
		return
	case graph.Again:
		fmt.Fprintf(a.out, "%s%s: held by %s, see above\n", indent, s.Lock, s.Holder)
		return
	}
	line := indent
	if depth > 0 {
		line += s.Lock + ": "
	}
	line += "held by " + s.Holder
	if h := holderNamed(st, s.Holder); h != nil {
		line += heldFor(" for ", h.Age)
		if h.Record.Reason != "" {
			line += " (" + h.Record.Reason + ")"
		}
		if h.Linger > 0 {
			line += ", where it " + lingers
		}
	}
	if len(waits) > 0 {
		line += ", which itself waits for " + strings.Join(waits, ", ")
	} else {
		line += ", which waits for no lock"
	}
	fmt.Fprintln(a.out, line)
}

func keptBy(st *fencelock.Status) *fencelock.Holder {
	if len(st.Holders) > 0 && st.Holders[0].Kept {
		return &st.Holders[0]
	}
	return nil
}

func holderNamed(st *fencelock.Status, owner string) *fencelock.Holder {
	if st != nil {
		for i := range st.Holders {
			if st.Holders[i].Record.Owner == owner {
				return &st.Holders[i]
			}
		}
	}
	return nil
}

func cycleInWords(c []graph.Step) string {
	var parts []string
	for i, s := range c {
		parts = append(parts, fmt.Sprintf("%s holds %s and waits for %s", s.Holder, s.Lock, c[(i+1)%len(c)].Lock))
	}
	return strings.Join(parts, "; ")
}

// whyJSON is what -o json prints.
type whyJSON struct {
	Locks  []whyLock      `json:"locks"`
	Cycles [][]graph.Step `json:"circles"`
}

type whyLock struct {
	lockview.Lock
	By []whyStep `json:"blocked_by"`
}

type whyStep struct {
	Depth    int      `json:"depth"`
	Lock     string   `json:"lock"`
	Holder   string   `json:"holder"`
	WaitsFor []string `json:"waits_for"`
	Circle   bool     `json:"circle,omitempty"`
	Above    bool     `json:"above,omitempty"` // the lock stands above already
}

func whyView(g *graph.Graph, byName map[string]*fencelock.Status, names []string, cycles [][]graph.Step) whyJSON {
	v := whyJSON{Locks: []whyLock{}, Cycles: [][]graph.Step{}}
	v.Cycles = append(v.Cycles, cycles...)
	for _, name := range names {
		l := whyLock{Lock: lockview.LockOf(*byName[name]), By: []whyStep{}}
		g.Walk(name, func(depth int, s graph.Step, waits []string, seen graph.Seen) {
			l.By = append(l.By, whyStep{depth, s.Lock, s.Holder, append([]string{}, waits...), seen == graph.Circle, seen == graph.Again})
		})
		v.Locks = append(v.Locks, l)
	}
	return v
}

// writeDot draws who holds and who waits, for graphviz.
func writeDot(w io.Writer, locks []fencelock.Status) error {
	var b strings.Builder
	b.WriteString("digraph locks {\n  rankdir=LR\n  node [fontname=\"sans-serif\"]\n")
	for _, st := range locks {
		fmt.Fprintf(&b, "  %q [shape=box]\n", "lock "+st.Name)
		for _, h := range st.Holders {
			fmt.Fprintf(&b, "  %q -> %q [label=\"held by\"]\n", "lock "+st.Name, h.Record.Owner)
		}
		for _, waiter := range st.Waiters {
			fmt.Fprintf(&b, "  %q -> %q [label=\"waits for\", style=dashed]\n", waiter.Record.Owner, "lock "+st.Name)
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
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

func kindOf(mode driver.Mode, weight int64) string {
	if mode == driver.Shared && weight > 1 {
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
