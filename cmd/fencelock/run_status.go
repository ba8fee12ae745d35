// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/fencelock/fencelock"
)

// status is what --status-fd and --status-file tell. Fields are only added.
type status struct {
	// Outcome is ran, lost, busy, timeout, skipped, interrupted, unavailable or
	// error.
	Outcome  string          `json:"outcome"`
	ExitCode int             `json:"exit_code"`
	Lock     string          `json:"lock"`
	Token    fencelock.Token `json:"token,omitempty"`
	Owner    string          `json:"owner,omitempty"`
	// Child is how the command ended, if it ran.
	Child *childStatus `json:"child,omitempty"`
	// Leftover is set if the command left processes that had to be ended.
	Leftover   bool        `json:"leftover,omitempty"`
	Occurrence string      `json:"occurrence,omitempty"`
	WaitedMS   int64       `json:"waited_ms"`
	HeldMS     int64       `json:"held_ms"`
	Holder     *holderView `json:"holder,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

type childStatus struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// openStatus opens where the status goes before anything else is done: that it
// cannot be written must not be found out when it is too late.
func (r *runner) openStatus() (func(status) error, error) {
	var f *os.File
	switch {
	case r.statusFD != 0 && r.statusFile != "":
		return nil, usage("--status-fd and --status-file: one of them is enough")
	case r.statusFD != 0:
		f = os.NewFile(uintptr(r.statusFD), "status")
		if _, err := f.Stat(); err != nil {
			return nil, usage("--status-fd %d is not open: %w", r.statusFD, err)
		}
		if r.statusFD > 2 {
			syscall.CloseOnExec(r.statusFD) // the reader waits for us, not for the command
		}
	case r.statusFile != "":
		var err error
		if f, err = os.OpenFile(r.statusFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
			return nil, usage("--status-file: %w", err)
		}
	default:
		return func(status) error { return nil }, nil
	}
	return func(s status) error {
		line, err := json.Marshal(s)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s\n", line)
		}
		if err != nil {
			r.note("the status could not be written: %v", err)
		}
		return nil // what happened has happened: the exit code is about that
	}, nil
}
