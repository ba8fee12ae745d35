// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

const lsHelp = `List the locks that are held, reserved or waited for, those whose name starts with
PREFIX if one is given. Free locks are not listed: the store does not keep them.

AGE is how long the holder has had it. ENDS IN is when it ends unless it is renewed;
a holder that lives renews it long before. "lingers, free on request": the holder's
process may keep the lock after an unlock, and gives it back when another process waits.

It reads page by page and blocks no client: on Redis it never uses KEYS.

With --watch it prints what happens to the locks, as one JSON object a line. It begins
with what there is, marked "initial", and ends with ctrl-C or after --for.

  held, ended       a client acquired the lock, holds it no longer
  kept              the holder is gone, and the lock stays reserved
  waiting, left     a client joined the queue, left it without the lock
  unreachable, reachable
                    the store did not answer, answers again

It polls the store (--every): what comes and goes between two polls is not seen.

The exit code is 0 even if there is nothing to list, and 69 if the store did not answer.
A store that stops answering later is reported as unreachable, and --watch goes on.`

func (a *app) lsCommand() *cobra.Command {
	var s lockview.Selection
	var watch bool
	var every, limit time.Duration
	cmd := &cobra.Command{
		Use:     "ls [PREFIX]",
		Aliases: []string{"list"},
		Short:   "List locks that are held or waited for, or watch them",
		Long:    lsHelp,
		Example: `  fencelock ls
  fencelock ls orders/ --waited
  fencelock ls --older-than 1h -o json | jq '.[].lock'
  fencelock ls orders/ --watch --every 200ms | jq -c 'select(.event == "ended")'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usage("one PREFIX at most")
			case !watch && (cmd.Flags().Changed("every") || cmd.Flags().Changed("for")):
				return usage("--every and --for need --watch")
			case every < 10*time.Millisecond:
				return usage("--every %v: at least 10ms", every)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.Prefix = args[0]
			}
			if !watch {
				return a.ls(cmd.Context(), s)
			}
			if cmd.Flags().Changed("output") && a.format != "json" {
				return usage("-o %s: --watch prints json", a.format)
			}
			return a.watch(cmd.Context(), s, every, limit)
		},
	}
	cmd.Flags().StringVar(&s.Owner, "owner", "", "only those held or waited for by an owner with this in the name")
	cmd.Flags().DurationVar(&s.OlderThan, "older-than", 0, "only those held for longer than this")
	cmd.Flags().BoolVar(&s.Waited, "waited", false, "only those with waiters")
	cmd.Flags().BoolVar(&watch, "watch", false, "print what happens to them, one JSON object a line")
	cmd.Flags().DurationVar(&every, "every", time.Second, "how often --watch polls the store")
	cmd.Flags().DurationVar(&limit, "for", 0, "end --watch after this time (default: never)")
	a.formatFlag(cmd, "table", "wide", "json", "name")
	return cmd
}

func (a *app) ls(ctx context.Context, s lockview.Selection) error {
	locks, err := a.listing(ctx, s)
	if err != nil {
		return err
	}
	return a.list(locks)
}

// list prints locks.
func (a *app) list(locks []fencelock.Status) error {
	switch a.format {
	case "json":
		views := []lockview.Lock{}
		for _, st := range locks {
			views = append(views, lockview.LockOf(st))
		}
		return printJSON(a.out, views)
	case "name":
		for _, st := range locks {
			fmt.Fprintln(a.out, text.Clean(st.Name))
		}
		return nil
	}
	if len(locks) == 0 {
		a.note("no lock is held or waited for")
		return nil
	}
	lockview.CleanAll(locks)
	wide := a.format == "wide"
	t := a.newTable(listHeadings(wide)...)
	for i := range locks {
		t.add(listRow(&locks[i], wide)...)
	}
	return t.write(a.out)
}

func listHeadings(wide bool) []string {
	if wide {
		return []string{"NAME", "STATE", "MODE", "HOLDER", "AGE", "ENDS IN", "WAITING", "TOKEN", "SESSION", "REASON"}
	}
	return []string{"NAME", "HOLDER", "AGE", "ENDS IN", "WAITING", "REASON"}
}

func listRow(st *fencelock.Status, wide bool) []string {
	age, ends, reason, mode, token, session := "-", "-", "", "-", "-", "-"
	if len(st.Holders) > 0 {
		h := &st.Holders[0]
		age, ends, reason = text.Short(lockview.Oldest(st)), text.Short(h.EndsIn), h.Record.Reason
		mode, token, session = h.Mode.String(), h.Token.String(), h.Claim.Session.String()[:8]
		switch {
		case h.Kept && !wide:
			reason = noted("reserved, not held", reason)
		case h.Linger > 0:
			reason = noted(lingers, reason)
		}
	}
	waiting := strconv.Itoa(st.Waiting)
	if st.Waiting == 0 {
		waiting = "-"
	}
	if wide {
		return []string{st.Name, lockview.State(st), mode, lockview.Owners(st), age, ends, waiting, token, session, reason}
	}
	return []string{st.Name, lockview.Owners(st), age, ends, waiting, reason}
}

// lingers is what is shown of a lock that its process may keep after an unlock. The store
// does not know whether the lock is in use.
const lingers = "lingers, free on request"

// noted is the reason column with a note before the reason.
func noted(note, reason string) string {
	if reason == "" {
		return note
	}
	return note + "; " + reason
}

// listing reads the locks that are wanted, by name.
func (a *app) listing(ctx context.Context, s lockview.Selection) ([]fencelock.Status, error) {
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer a.close(conn)
	locks, err := s.Read(ctx, conn.client)
	if errors.Is(err, fencelock.ErrUnsupported) {
		return nil, fmt.Errorf("%w; fencelock why LOCK shows one lock", err)
	}
	return locks, err
}

// completeLocks lists the names of locks for the shell.
func (a *app) completeLocks(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.quiet, a.timeout = true, time.Second // a user who pressed tab does not wait for long
	locks, err := a.listing(cmd.Context(), lockview.Selection{Prefix: prefix})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range locks {
		names = append(names, locks[i].Name+"\t"+lockview.Owners(&locks[i]))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// watchEvent is a line of ls --watch.
type watchEvent struct {
	Time time.Time `json:"time"`
	lockview.Event
	Initial bool   `json:"initial,omitempty"`
	Error   string `json:"error,omitempty"`
}

// watch prints what happens to the locks that are wanted.
func (a *app) watch(parent context.Context, s lockview.Selection, every, limit time.Duration) error {
	ctx, stop := untilSignal(parent)
	defer stop()
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer a.close(conn)
	if limit > 0 { // from here on: a store that answers slowly at the start is not an error
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errOver)
		defer cancel()
	}
	w := &watcher{enc: json.NewEncoder(a.out), initial: true}
	w.enc.SetEscapeHTML(false)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		locks, err := s.Read(ctx, conn.client)
		if ctx.Err() == nil {
			if err := w.report(locks, err); err != nil {
				return err // stdout was closed
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// errOver is why --for ends a command: that is no error.
var errOver = errors.New("time is over")

// ended is the exit of a command that runs until a signal or --for ends it.
func ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errOver) {
		return nil
	}
	return exitSilently(exitCode(context.Cause(ctx)))
}

// watcher keeps the result of the last poll.
type watcher struct {
	enc     *json.Encoder
	before  []fencelock.Status
	initial bool
	lost    bool
}

func (w *watcher) report(locks []fencelock.Status, err error) error {
	now := time.Now()
	switch {
	case err != nil && w.lost:
		return nil
	case err != nil:
		w.lost = true
		return w.enc.Encode(watchEvent{Time: now, Event: lockview.Event{Kind: "unreachable"}, Error: err.Error()})
	case w.lost:
		w.lost = false
		if err := w.enc.Encode(watchEvent{Time: now, Event: lockview.Event{Kind: "reachable"}}); err != nil {
			return err
		}
	}
	for _, e := range lockview.Changes(w.before, locks) {
		if err := w.enc.Encode(watchEvent{Time: now, Event: e, Initial: w.initial}); err != nil {
			return err
		}
	}
	w.before, w.initial = locks, false
	return nil
}
