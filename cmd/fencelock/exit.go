// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// The exit codes. run gives the command's own code, or 128 and the signal that
// ended it; these are for what happened instead. They are part of the contract.
const (
	exitOK          = 0
	exitFailed      = 1   // a check said no: doctor, verify; anything else that went wrong
	exitUsage       = 64  // the command line or the configuration is wrong
	exitUnavailable = 69  // the store did not answer
	exitNotAcquired = 75  // somebody else has the lock
	exitLost        = 76  // the lock was lost while it was held
	exitInternal    = 125 // run itself failed
	exitNotRunnable = 126 // the command cannot be executed
	exitNotFound    = 127 // the command was not found
)

// failure is an error with the exit code it leads to.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usage is a wrong command line.
func usage(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// interrupted is the end of waiting by a signal.
type interrupted struct{ sig syscall.Signal }

func (i interrupted) Error() string { return fmt.Sprintf("interrupted by %v", i.sig) }

// quiet is an exit code that needs no words on stderr.
type quiet int

func (q quiet) Error() string { return fmt.Sprintf("exit code %d", int(q)) }

// exitCode tells which code an error leads to.
func exitCode(err error) int {
	var f *failure
	var i interrupted
	var q quiet
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &q):
		return int(q)
	case errors.As(err, &f):
		return f.code
	case errors.As(err, &i):
		return 128 + int(i.sig)
	case errors.Is(err, fencelock.ErrLost):
		return exitLost
	case errors.Is(err, fencelock.ErrBusy), errors.Is(err, errWaited):
		return exitNotAcquired
	case errors.Is(err, driver.ErrRefused):
		return exitUsage // settings, the server's or ours
	case errors.Is(err, fencelock.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitFailed
}

// errWaited is why --wait gave up.
var errWaited = errors.New("the lock did not become free in time")
