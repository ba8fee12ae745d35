// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/driver"
	"golang.org/x/sys/unix"
)

// The exit codes. run gives the command's own code, or 128 and the signal that
// ended it; these are for what happened instead. They are part of the contract.
const (
	exitOK          = 0
	exitFailed      = 1   // a check said no: doctor, why; anything else that went wrong, but for run
	exitUsage       = 64  // the command line or the configuration is wrong
	exitUnavailable = 69  // the store did not answer
	exitNotAcquired = 75  // another client has the lock
	exitLost        = 76  // the lock was lost while it was held
	exitGrace       = 79  // the store grants no new locks for now: a grace period
	exitInternal    = 125 // run itself failed
	exitNotRunnable = 126 // the command cannot be executed
	exitNotFound    = 127 // the command was not found
)

// exitError is an error with the exit code it leads to.
type exitError struct {
	code int
	// err is printed; nil means that nothing is.
	err error
	// sig is the signal that ended the waiting for a lock.
	sig syscall.Signal
	// raise is the signal by which the program ends itself. A shell that runs a loop goes
	// on after a command that merely returns 130, and ends after one that died of ctrl-C,
	// as the loop's user wanted.
	raise syscall.Signal
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// withCode is an error that leads to an exit code.
func withCode(code int, err error) error { return &exitError{code: code, err: err} }

// usage is a wrong command line.
func usage(format string, args ...any) error { return withCode(exitUsage, fmt.Errorf(format, args...)) }

// exitSilently is an exit code that needs no words on stderr.
func exitSilently(code int) error { return &exitError{code: code} }

// interrupted is the end of waiting by a signal.
func interrupted(sig syscall.Signal) error {
	return &exitError{code: 128 + int(sig), err: errors.New("interrupted by " + unix.SignalName(sig)), sig: sig}
}

// isSilent reports whether an error is an exit code without words.
func isSilent(err error) bool {
	var e *exitError
	return errors.As(err, &e) && e.err == nil
}

// exitCode returns which code an error leads to.
func exitCode(err error) int {
	var e *exitError
	var answered *agent.ReplyError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &answered):
		return answered.Code
	case errors.Is(err, agent.ErrReleased):
		return exitLost // another may have held it since
	case errors.Is(err, agent.ErrUnknown):
		return exitUsage
	case errors.Is(err, agent.ErrNoAnswer):
		return exitInternal
	case errors.Is(err, fencelock.ErrLost):
		return exitLost
	case errors.Is(err, fencelock.ErrGrace):
		return exitGrace // before errWaited: a wait may end in it
	case errors.Is(err, fencelock.ErrBusy), errors.Is(err, errWaited):
		return exitNotAcquired
	case errors.Is(err, driver.ErrRefused):
		return exitUsage // settings, the server's or ours
	case errors.Is(err, fencelock.ErrUnsupported):
		return exitUsage // another store can
	case errors.Is(err, fencelock.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitFailed
}

// errWaited is why --wait gave up.
var errWaited = errors.New("the lock did not become free in time")
