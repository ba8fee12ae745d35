// SPDX-License-Identifier: Apache-2.0

package warden

import (
	"bufio"
	"encoding/json"
	"io"
)

// Arg is the first argument that makes the program a warden; see Main.
const Arg = "__warden"

// order is what the holder tells the warden, as a line of JSON.
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

// report is what the warden tells the holder.
type report struct {
	// Started is the process id of the command, and of its group.
	Started int `json:"started,omitempty"`
	// NotFound and Failed say why it was not started.
	NotFound bool   `json:"not_found,omitempty"`
	Failed   string `json:"failed,omitempty"`
	// Exited says how the command itself ended.
	Exited *Exit `json:"exited,omitempty"`
	// Overdue says that Until has passed and everything is being killed.
	Overdue bool `json:"overdue,omitempty"`
	// Empty says that nothing of the command is left.
	Empty bool `json:"empty,omitempty"`
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

// receive calls fn for each line until the pipe is closed.
func receive[T any](r io.Reader, fn func(T)) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var v T
		if json.Unmarshal(lines.Bytes(), &v) == nil {
			fn(v)
		}
	}
}
