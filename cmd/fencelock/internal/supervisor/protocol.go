// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Arg is the first argument that makes the program a supervisor; see Main.
const Arg = "__supervisor"

// order is what the holder sends the supervisor, as a line of JSON.
type order struct {
	// Until replaces the instant at which everything is killed.
	Until Instant `json:"until,omitempty"`
	// Signal is sent to the process group.
	Signal int `json:"signal,omitempty"`
	// Kill kills everything now.
	Kill bool `json:"kill,omitempty"`
	// All makes the end of the command the end of everything, also of what has
	// left its group.
	All bool `json:"all,omitempty"`
	// Foreground says that the command has the terminal: then it is not left
	// stopped by ctrl-Z, which would let the lock expire under it.
	Foreground bool `json:"foreground,omitempty"`
}

// report is what the supervisor sends the holder.
type report struct {
	// Started is the process id of the command, and of its group.
	Started int `json:"started,omitempty"`
	// NotFound, TooLate and Failed say why it was not started.
	NotFound bool   `json:"not_found,omitempty"`
	TooLate  bool   `json:"too_late,omitempty"`
	Failed   string `json:"failed,omitempty"`
	// Exited says how the command itself ended.
	Exited *Exit `json:"exited,omitempty"`
	// Overdue says that Until has passed and everything is being killed.
	Overdue bool `json:"overdue,omitempty"`
	// Left says that processes of the group run although the command has ended for a while.
	Left bool `json:"left,omitempty"`
	// Empty says that nothing of the command is left.
	Empty bool `json:"empty,omitempty"`
	// Stopped is the signal by which the terminal stopped the command: it wants to
	// read from the terminal or to set it, and is in the background. SIGCONT says that
	// it goes on.
	Stopped int `json:"stopped,omitempty"`
	// Unreached are processes of another user, which a signal did not reach; Killing
	// says that it was KILL, so that they outlive the lock.
	Unreached []Process `json:"unreached,omitempty"`
	Killing   bool      `json:"killing,omitempty"`
}

// Process is a process that belongs to another user.
type Process struct {
	PID int `json:"pid"`
	// UID is the user, -1 if the system does not show it.
	UID  int    `json:"uid"`
	Name string `json:"name,omitempty"`
}

// Exit is how the command ended: by itself with a code, or by a signal.
type Exit struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// Status is the exit code as a shell shows it: 128 and the signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}

func send(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(line, '\n')) // below PIPE_BUF: in one piece
	}
	return err
}

// maxLine is longer than any line that is sent.
const maxLine = 64 * 1024

// receive calls fn for each line until the pipe is closed. A line that is too long is the
// end, too: nothing that we start sends one.
func receive[T any](r io.Reader, fn func(T)) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var v T
		if json.Unmarshal(lines.Bytes(), &v) == nil {
			fn(v)
		}
	}
}

// Instant is a point in time that processes of one machine agree on: nanoseconds
// of a clock that cannot be set and that counts suspend.
type Instant int64

// Now returns the current instant.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		// Every supported system has the clock. Without it nothing can be
		// promised, and 0 would make everything look far away.
		panic("supervisor: clock_gettime: " + err.Error())
	}
	return Instant(ts.Nano())
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// At returns the instant of a time that this process reads by its own clock.
func At(t time.Time) Instant { return at(Now, func() time.Duration { return time.Until(t) }) }

// at reads the clock first and then how long it is: if the process stands still in
// between, the instant comes too early. The other way round it would come too late, by
// as long as it stood still.
func at(now func() Instant, left func() time.Duration) Instant {
	n := now()
	return n.Add(left())
}
