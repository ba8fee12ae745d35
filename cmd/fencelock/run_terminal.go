// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os/signal"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/supervisor"
	"golang.org/x/sys/unix"
)

const (
	// terminalPatience is how long a command that wants the terminal may stay stopped
	// in the background: it holds the lock, and it does no work.
	terminalPatience = 10 * time.Second
	// terminalAgain is how often the foreground is checked while it waits: a shell does
	// not notify a job that it brings to the foreground.
	terminalAgain = 100 * time.Millisecond
)

// lending is the state of a command that the terminal stopped.
type lending struct {
	since time.Time // the command is stopped since then; zero if it is not
	term  bool      // it was asked to end
	kill  bool      // it was killed
	next  <-chan time.Time
}

// terminal gives the terminal to a command that was stopped because it wants it, or ends
// the command: stopped, it would hold the lock for as long as we live.
func (s *supervision) terminal() {
	l := &s.lending
	switch {
	case l.kill:
	case l.term: // it had its time; another stop changes nothing
		if time.Since(l.since) >= s.times.Stop {
			l.kill, l.next = true, nil
			s.child.Signal(syscall.SIGKILL)
		} else {
			l.next = time.After(s.times.Stop - time.Since(l.since))
		}
	case s.child.Stopped() == 0 || s.exit != nil:
		*l = lending{}
	default:
		s.lend()
	}
}

// lend tries to give the terminal to the command, and asks it to end if that fails for
// too long.
func (s *supervision) lend() {
	l := &s.lending
	takeBack, lent, hope := lendTerminal(s.child)
	switch {
	case lent:
		*l = lending{}
		if s.takeBack == nil {
			s.takeBack = takeBack
		}
		return
	case l.since.IsZero():
		l.since = time.Now()
		if hope {
			s.note("the command wants the terminal and is stopped, because it runs in the background; bring it to the foreground, or it is ended in %v", terminalPatience)
		}
	}
	if hope && time.Since(l.since) < terminalPatience {
		l.next = time.After(terminalAgain)
		return
	}
	l.term, l.since = true, time.Now()
	l.next = time.After(s.times.Stop)
	s.status.Reason = "the command was ended because it was stopped: it wanted a terminal that it could not have"
	s.child.Signal(syscall.SIGTERM)
	s.child.Signal(syscall.SIGCONT)
	s.note("the command wants a terminal that it cannot have; it gets TERM, and KILL after %v", s.times.Stop)
}

// lendTerminal gives the terminal to the command's group if our group has it, although
// stdin or stdout is another: in "fencelock run a -- cmd | tee log" the command may ask a
// question. takeBack also continues members of the pipeline that were stopped because
// they wanted the terminal, too. hope reports whether a later try may succeed.
func lendTerminal(child *supervisor.Child) (takeBack func(), lent, hope bool) {
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, false // it was closed
	}
	owner, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	ours := unix.Getpgrp()
	if err == nil && owner == ours {
		signal.Ignore(syscall.SIGTTOU) // a process in the background is stopped for setting the foreground
		err = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, child.PID)
	}
	if err != nil || owner != ours && owner != child.PID {
		_ = unix.Close(tty)
		return nil, false, err == nil
	}
	child.Foreground()
	if owner == child.PID { // it was given before, and too late for the command
		_ = unix.Close(tty)
		return nil, true, true
	}
	return func() {
		_ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, ours)
		_ = unix.Close(tty)
		_ = unix.Kill(0, unix.SIGCONT)
	}, true, true
}

// giveTerminal makes the command's process group the one that reads from the
// terminal and gets its ctrl-C, if we are that group now. The returned function
// takes the terminal back; it is nil if nothing was given.
//
// Stdout must be a terminal, too: in "fencelock run a -- cmd | less" it is less that needs
// it, and less is of our group.
func giveTerminal(child *supervisor.Child) (takeBack func()) {
	const tty = 0
	owner, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	if _, other := unix.IoctlGetInt(1, unix.TIOCGPGRP); err != nil || other != nil || owner != unix.Getpgrp() {
		return nil
	}
	// The kernel stops a background process that sets the foreground, by SIGTTOU.
	signal.Ignore(syscall.SIGTTOU)
	if unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, child.PID) != nil {
		return nil
	}
	child.Foreground()
	return func() { _ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, owner) }
}
