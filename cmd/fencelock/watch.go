// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/spf13/cobra"
)

func (a *app) watchCommand() *cobra.Command {
	var every, limit time.Duration
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Print what happens to locks, one JSON object a line",
		Long: `Print what happens to the locks whose name starts with PREFIX, or to all, as one JSON
object a line. It begins with what there is, marked "initial".

  held, ended       a client acquired the lock, holds it no longer
  kept              the holder is gone, and the lock stays reserved
  waiting, left     a client joined the queue, left it without the lock
  unreachable, reachable
                    the store did not answer, answers again

It polls the store (--every): what comes and goes between two polls is not seen.
It ends with ctrl-C, or after --for. The exit code is 69 if the store does not answer at
the start; later it is reported as unreachable, and watch goes on.`,
		Example: `  fencelock watch
  fencelock watch orders/ --every 200ms | jq -c 'select(.event == "ended")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one PREFIX at most")
			}
			if every < 10*time.Millisecond {
				return usage("--every %v: at least 10ms", every)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var s lockview.Selection
			if len(args) == 1 {
				s.Prefix = args[0]
			}
			return a.watch(cmd.Context(), s, every, limit)
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "how often to poll the store")
	cmd.Flags().DurationVar(&limit, "for", 0, "end after this time (default: never)")
	return cmd
}

// watchEvent is a line of watch.
type watchEvent struct {
	Time time.Time `json:"time"`
	lockview.Event
	Initial bool   `json:"initial,omitempty"`
	Error   string `json:"error,omitempty"`
}

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
