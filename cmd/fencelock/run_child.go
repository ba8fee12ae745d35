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
	"github.com/fencelock/fencelock/cmd/fencelock/internal/jobtimes"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/supervisor"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// supervise runs the command under the lease and returns when all of it is dead.
// The error is nil or a silent exit code if the command ended by itself.
func (r *runner) supervise(l *fencelock.Lease) error {
	held := l.Context()
	until := l.Deadline()
	left := time.Until(until)
	if held.Err() != nil {
		return r.lost(context.Cause(held), nil)
	}
	if !jobtimes.Enough(left, r.times.Stop) {
		r.status.Outcome, r.status.Reason = outcomeUnavailable, "too little time was left to start the command"
		return withCode(exitUnavailable, fmt.Errorf("only %v of the lock is left, and --stop-time is %v: the store answers too slowly, or grants less than --ttl; the command was not started",
			left.Round(time.Millisecond), r.times.Stop))
	}
	if supervisor.Blind() {
		r.note("/proc does not show the processes of this container: a process that leaves the command's process group is not ended when the lock is lost")
	}
	child, err := supervisor.Start(r.argv, r.environment(l), supervisor.At(until))
	switch {
	case errors.Is(err, supervisor.ErrTooLate):
		return r.lost(&fencelock.LostError{Reason: fencelock.LossUnrenewed}, nil)
	case errors.Is(err, supervisor.ErrNotFound):
		return r.broke(exitNotFound, err)
	case errors.Is(err, supervisor.ErrNotExecutable):
		return r.broke(exitNotRunnable, err)
	case err != nil:
		return r.broke(exitInternal, err)
	}
	s := &supervision{runner: r, lease: l, child: child, until: until}
	s.takeBack = giveTerminal(child)
	err = s.run(held)
	if s.takeBack != nil {
		s.takeBack()
		if sig := syscall.Signal(s.exit.Signal); sig == syscall.SIGINT && isSilent(err) {
			err = &exitError{code: exitCode(err), raise: sig}
		}
	}
	return err
}

// supervision is a command that runs.
type supervision struct {
	*runner
	lease  *fencelock.Lease
	child  *supervisor.Child
	until  time.Time // what the supervisor was sent last
	termed bool      // the lock is about to be lost, and the command knows
	warned bool      // the command got such a TERM once
	swept  bool      // what the command left in its group got TERM
	exit   *supervisor.Exit
	cause  error // why the lock is lost

	takeBack func() // takes the terminal back from the command; nil if it has none
	lending  lending
}

func (s *supervision) run(held context.Context) error {
	lost := held.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var leftover <-chan time.Time
	ended, left := s.child.Exited(), s.child.Left()
	for {
		select {
		case exit := <-ended:
			s.exit, ended = &exit, nil
		case <-s.child.Empty():
			if ended != nil {
				exit := <-ended
				s.exit = &exit
			}
			return s.over()
		case <-left:
			left, leftover = nil, s.endLeftover()
		case <-leftover:
			leftover = s.endLeftover()
		case sig := <-s.signals:
			s.forward(sig.(syscall.Signal))
		case <-s.child.StopChanged():
			s.terminal()
		case <-s.lending.next:
			s.terminal()
		case u := <-s.child.Unreached():
			s.unreached(u)
		case <-lost:
			lost, s.cause = nil, context.Cause(held)
			s.child.Kill(s.times.Margin / 4) // first: the reader of stderr may be slow
			s.note("lost %s: %v; killing the command", s.name, text.Plain(s.cause.Error()))
		case <-timer.C:
			timer.Reset(s.check())
		}
	}
}

// check compares the deadline of the lease with the clock.
func (s *supervision) check() time.Duration {
	if s.cause != nil {
		return time.Second
	}
	deadline := s.lease.Deadline()
	left := time.Until(deadline)
	if d := deadline.Sub(s.until); d > time.Millisecond || d < -time.Millisecond {
		s.until = deadline
		s.child.Until(supervisor.At(deadline))
	}
	if s.termed && left > s.times.Stop {
		// It may go on, or be on its way out; the next outage is a new one.
		s.termed, s.status.Recovered = false, true
		s.note("%s was renewed after all; the command got TERM and may end, or go on", s.name)
	}
	action, wait := jobtimes.Next(left, s.times.Stop, s.termed)
	if action == jobtimes.Term {
		s.termed, s.warned, s.status.Recovered = true, true, false
		s.child.Term()
		s.note("%s cannot be renewed and is lost in %v; the command gets TERM", s.name, left.Round(time.Millisecond))
	}
	// At the deadline the context of the lease ends, and that kills.
	return max(wait, time.Millisecond)
}

// endLeftover ends what the command has left in its group: first TERM, then KILL.
func (s *supervision) endLeftover() <-chan time.Time {
	if s.cause != nil || s.warned || s.child.Overdue() {
		return nil // all of it is being killed; that it takes a moment is not worth a word
	}
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

// forward passes a signal on to the command. After CONT this process may be in the
// foreground of the terminal again.
func (s *supervision) forward(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		if takeBack := giveTerminal(s.child); takeBack != nil {
			s.takeBack = takeBack
		}
	}
	s.child.Signal(sig)
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		s.child.Signal(syscall.SIGCONT) // a stopped process does not see what asks it to end
	}
}

// unreached reports processes of another user, which a signal did not reach. No signal of
// ours can end them.
func (s *supervision) unreached(u supervisor.Unreached) {
	for _, p := range u.Processes {
		v := survivorOf(p)
		switch {
		case u.Killing && s.cause == nil && !s.child.Overdue():
			s.note("%v belongs to another user and cannot be killed; the lock is held until it ends", v)
		case u.Killing:
			s.note("%v belongs to another user and cannot be killed; it goes on without the lock", v)
		default:
			s.note("%v belongs to another user and does not get the signal", v)
		}
		if u.Killing {
			s.status.Survivors = append(s.status.Survivors, v)
		}
	}
}

// over says how it ended.
func (s *supervision) over() error {
	for len(s.child.Unreached()) > 0 {
		s.unreached(<-s.child.Unreached())
	}
	s.status.Child = &childStatus{Code: s.exit.Status(), Signal: s.exit.Signal}
	switch {
	case s.cause != nil:
		return s.lost(s.cause, s.exit)
	case s.child.Overdue():
		return s.lost(&fencelock.LostError{Reason: fencelock.LossUnrenewed}, s.exit)
	case s.warned && s.status.Recovered:
		// The lock was held to the end. But whether the command did all of its work or
		// stopped halfway after TERM only the command knows, and 0 would be a
		// promise.
		s.status.Outcome, s.status.Reason = outcomeLost, "the command got TERM because the lock was about to be lost; it was renewed after that"
		return withCode(exitLost, fmt.Errorf("%s: the command got TERM because the lock was about to be lost, and ended with %d; the lock was renewed after that and was held to the end",
			s.name, s.exit.Status()))
	case s.warned:
		s.status.Outcome, s.status.Reason = outcomeLost, "about to be lost: the store did not confirm a renewal"
		return withCode(exitLost, fmt.Errorf("%s: the command was ended because the lock was about to be lost: %w", s.name, fencelock.ErrLost))
	}
	s.status.Outcome = outcomeRan
	if code := s.exit.Status(); code != 0 {
		return exitSilently(code)
	}
	return nil
}

// lost is the end of a command whose lock was lost.
func (r *runner) lost(cause error, exit *supervisor.Exit) error {
	r.status.Outcome, r.status.Reason = outcomeLost, text.Plain(cause.Error())
	what := "the command was not started"
	switch {
	case exit != nil && len(r.status.Survivors) > 0:
		what = fmt.Sprintf("the command went on without the lock: %v belongs to another user and could not be killed", r.status.Survivors[0])
	case exit != nil:
		what = "the command was ended"
	}
	return withCode(exitLost, fmt.Errorf("%s: %s: %w", r.name, what, cause))
}

// broke is a command that could not be run.
func (r *runner) broke(code int, err error) error {
	r.status.Outcome, r.status.Reason = outcomeError, err.Error()
	return withCode(code, err)
}

// environment is ours with the lease in it. It comes last, so that a lock inside a
// lock shows the inner one.
func (r *runner) environment(l *fencelock.Lease) []string {
	var env []string
	for _, pair := range os.Environ() {
		key, _, _ := strings.Cut(pair, "=")
		switch {
		case key == "FENCELOCK_NAME", key == "FENCELOCK_TOKEN", key == "FENCELOCK_OWNER":
		case key == "FENCELOCK_STORE" && r.dropStore:
		default:
			env = append(env, pair)
		}
	}
	env = append(env, "FENCELOCK_NAME="+l.Name(), "FENCELOCK_OWNER="+r.lockFlags.owner)
	if l.Token() != 0 { // a store without tokens returns 0
		env = append(env, "FENCELOCK_TOKEN="+strconv.FormatInt(int64(l.Token()), 10))
	}
	return env
}
