// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/supervisor"
	"golang.org/x/sys/unix"
)

// outcome is what became of a run.
type outcome string

// The outcomes.
const (
	outcomeRan         outcome = "ran"
	outcomeLost        outcome = "lost"
	outcomeBusy        outcome = "busy"
	outcomeGrace       outcome = "grace"
	outcomeTimeout     outcome = "timeout"
	outcomeSkipped     outcome = "skipped"
	outcomeInterrupted outcome = "interrupted"
	outcomeUnavailable outcome = "unavailable"
	outcomeError       outcome = "error"
)

// status is what --status-fd and --status-file report. Fields are only added.
type status struct {
	Outcome  outcome         `json:"outcome"`
	ExitCode int             `json:"exit_code"`
	Lock     string          `json:"lock"`
	Token    fencelock.Token `json:"token,omitempty,string"`
	Owner    string          `json:"owner,omitempty"`
	// Child is how the command ended, if it ran.
	Child *childStatus `json:"child,omitempty"`
	// Leftover is set if the command left processes that had to be ended.
	Leftover bool `json:"leftover,omitempty"`
	// Survivors are processes of the command that belong to another user and that KILL
	// did not reach. They may have worked without the lock.
	Survivors []survivor `json:"survivors,omitempty"`
	// Recovered is set if the command got TERM because the lock was about to be
	// lost, and the lock was renewed after that.
	Recovered  bool             `json:"recovered,omitempty"`
	Occurrence string           `json:"occurrence,omitempty"`
	WaitedMS   int64            `json:"waited_ms"`
	HeldMS     int64            `json:"held_ms"`
	Holder     *lockview.Holder `json:"holder,omitempty"`
	Reason     string           `json:"reason,omitempty"`
}

type childStatus struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// survivor is a process that could not be killed.
type survivor struct {
	PID     int    `json:"pid"`
	User    string `json:"user,omitempty"`
	Command string `json:"command,omitempty"`
}

func survivorOf(p supervisor.Process) survivor {
	v := survivor{PID: p.PID, Command: p.Name}
	if p.UID >= 0 {
		v.User = strconv.Itoa(p.UID)
		if u, err := user.LookupId(v.User); err == nil {
			v.User = u.Username
		}
	}
	return v
}

func (v survivor) String() string {
	text := fmt.Sprintf("process %d", v.PID)
	if v.Command != "" && v.User != "" {
		text += fmt.Sprintf(" (%s, user %s)", v.Command, v.User)
	}
	return text
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
		info, err := os.Stat(r.statusFile)
		if err != nil || info.Mode().IsRegular() {
			return r.statusToFile()
		}
		// A pipe or a device: there is nothing to replace.
		f, err = os.OpenFile(r.statusFile, os.O_WRONLY, 0)
		if err != nil {
			return nil, usage("--status-file: %w", err)
		}
	default:
		return func(status) error { return nil }, nil
	}
	return func(s status) error {
		r.wrote(writeStatus(f, s))
		return nil
	}, nil
}

// statusToFile writes the status at the end, in one step: a reader sees all of it or no
// file, and not that of an earlier run. What the path shows is replaced, not followed: in
// a directory that others can write to, a link could lead anywhere.
func (r *runner) statusToFile() (func(status) error, error) {
	path, err := filepath.Abs(r.statusFile)
	if err != nil {
		return nil, usage("--status-file: %w", err)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, usage("--status-file %s is a symbolic link; name the file itself, or use --status-fd", r.statusFile)
	}
	dir := filepath.Dir(path)
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return nil, usage("--status-file %s: %w", r.statusFile, err)
	}
	return func(s status) error {
		r.wrote(replaceStatus(dir, path, s))
		return nil
	}, nil
}

func replaceStatus(dir, path string, s status) error {
	f, err := os.OpenFile(filepath.Join(dir, ".fencelock-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = errors.Join(writeStatus(f, s), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func writeStatus(f *os.File, s status) error {
	line, err := json.Marshal(s)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\n", line)
	}
	return err
}

// wrote reports that the status was not written. The exit code is about the command.
func (r *runner) wrote(err error) {
	if err != nil {
		r.note("the status could not be written: %v", err)
	}
}
