// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
)

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
