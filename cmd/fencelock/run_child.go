// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/plan"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/warden"
)

// leftoverAfter is how long after the command its process group may take to be
// empty before it is told to end.
const leftoverAfter = 50 * time.Millisecond

// supervise runs the command under the lease and returns when all of it is dead.
// The error is nil or quiet if the command ended by itself.
func (r *runner) supervise(l *fencelock.Lease) error {
	held := l.Context()
	left := time.Until(l.Deadline())
	if held.Err() != nil {
		return r.lost(context.Cause(held), nil)
	}
	if !plan.Enough(left, r.times.Stop) {
		r.status.Outcome, r.status.Reason = "unavailable", "too little time was left to start the command"
		return &failure{exitUnavailable, fmt.Errorf("only %v of the lock is left, and --stop-time is %v: the store answers too slowly, or grants less than --ttl; the command was not started",
			left.Round(time.Millisecond), r.times.Stop)}
	}
	child, err := warden.Start(r.argv, r.environment(l), warden.Now().Add(left))
	switch {
	case errors.Is(err, warden.ErrNotFound):
		return r.broke(exitNotFound, err)
	case errors.Is(err, warden.ErrNotExecutable):
		return r.broke(exitNotRunnable, err)
	case err != nil:
		return r.broke(exitInternal, err)
	}
	defer giveTerminal(child)()
	s := &supervision{runner: r, lease: l, child: child, until: l.Deadline()}
	return s.run(held)
}

// supervision is a command that runs.
type supervision struct {
	*runner
	lease  *fencelock.Lease
	child  *warden.Child
	until  time.Time // what the warden was told last
	termed bool      // the lock is about to be lost, and the command knows
	swept  bool      // what the command left in its group was told to end
	exit   *warden.Exit
	cause  error // why the lock is lost
}

func (s *supervision) run(held context.Context) error {
	lost := held.Done()
	look := time.NewTimer(0)
	defer look.Stop()
	var leftover <-chan time.Time
	ended := s.child.Exited()
	for {
		select {
		case exit := <-ended:
			s.exit, ended = &exit, nil
			leftover = time.After(leftoverAfter)
		case <-s.child.Empty():
			if ended != nil {
				exit := <-ended
				s.exit = &exit
			}
			return s.over()
		case <-leftover:
			leftover = s.endLeftover()
		case sig := <-s.signals:
			s.forward(sig.(syscall.Signal))
		case <-lost:
			lost, s.cause = nil, context.Cause(held)
			s.child.Kill() // first: whoever reads stderr may be slow
			s.note("lost %s: %v; killing the command", s.name, strings.ReplaceAll(s.cause.Error(), "fencelock: ", ""))
		case <-look.C:
			look.Reset(s.look())
		}
	}
}

// look compares the deadline of the lease with the clock.
func (s *supervision) look() time.Duration {
	if s.cause != nil {
		return time.Second
	}
	deadline := s.lease.Deadline()
	left := time.Until(deadline)
	if d := deadline.Sub(s.until); d > time.Millisecond || d < -time.Millisecond {
		s.until = deadline
		s.child.Until(warden.Now().Add(left))
	}
	action, wait := plan.Next(left, s.times.Stop, s.termed)
	if action == plan.Term {
		s.termed = true
		s.child.Term()
		s.note("%s cannot be renewed and is lost in %v; the command gets TERM", s.name, left.Round(time.Millisecond))
	}
	// At the deadline the context of the lease ends, and that kills.
	return max(wait, time.Millisecond)
}

// endLeftover ends what the command has left in its group: first TERM, then KILL.
func (s *supervision) endLeftover() <-chan time.Time {
	if s.swept {
		s.child.Signal(syscall.SIGKILL)
		return nil
	}
	s.swept, s.status.Leftover = true, true
	s.child.Signal(syscall.SIGTERM)
	s.child.Signal(syscall.SIGCONT)
	s.note("the command has ended and left processes in its group; they get TERM, and KILL after %v", s.times.Stop)
	return time.After(s.times.Stop)
}

// forward passes a signal on. CONT besides means that we may have come to the
// foreground of the terminal again.
func (s *supervision) forward(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		giveTerminal(s.child)
	}
	s.child.Signal(sig)
}

// over says how it ended.
func (s *supervision) over() error {
	s.status.Child = &childStatus{Code: s.exit.Status(), Signal: s.exit.Signal}
	switch {
	case s.cause != nil:
		return s.lost(s.cause, s.exit)
	case s.child.Overdue():
		return s.lost(fmt.Errorf("%w: %w", fencelock.ErrLost, fencelock.ErrUnrenewed), s.exit)
	case s.termed:
		s.status.Outcome, s.status.Reason = "lost", "about to be lost: the store did not confirm a renewal"
		return &failure{exitLost, fmt.Errorf("%s: the command was ended because the lock was about to be lost: %w", s.name, fencelock.ErrLost)}
	}
	s.status.Outcome = "ran"
	if code := s.exit.Status(); code != 0 {
		return quiet(code)
	}
	return nil
}

// lost is the end of a command whose lock was lost.
func (r *runner) lost(cause error, exit *warden.Exit) error {
	r.status.Outcome, r.status.Reason = "lost", strings.ReplaceAll(cause.Error(), "fencelock: ", "")
	what := "the command was not started"
	if exit != nil {
		what = "the command was ended"
	}
	return &failure{exitLost, fmt.Errorf("%s: %s: %w", r.name, what, cause)}
}

// broke is a command that could not be run.
func (r *runner) broke(code int, err error) error {
	r.status.Outcome, r.status.Reason = "error", err.Error()
	return &failure{code, err}
}

// environment is ours with the lease in it. It comes last, so that a lock inside a
// lock shows the inner one.
func (r *runner) environment(l *fencelock.Lease) []string {
	var env []string
	for _, pair := range os.Environ() {
		key, _, _ := strings.Cut(pair, "=")
		if key != "FENCELOCK_NAME" && key != "FENCELOCK_TOKEN" && key != "FENCELOCK_OWNER" {
			env = append(env, pair)
		}
	}
	return append(env, "FENCELOCK_NAME="+l.Name(), "FENCELOCK_TOKEN="+strconv.FormatInt(int64(l.Token()), 10), "FENCELOCK_OWNER="+r.wish.owner)
}
