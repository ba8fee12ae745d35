// SPDX-License-Identifier: Apache-2.0

// Package history is what happened in a cell, one event a line, from all
// processes, on one clock:
//
//	{"at":81220113,"kind":"grant","who":"c1","lock":"l0","token":512,"until":82120113}
//
// All processes run on one machine and share CLOCK_MONOTONIC, so intervals of
// different processes can be compared as they are. A cluster could not do that.
//
// A client writes an event before what it is about to do and after what came
// back, never in between: the interval in which something took effect is always
// inside the two. A process that is stopped or killed leaves the first without
// the second, and the checkers take that as an unknown outcome.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Kind says what an event is.
type Kind string

// The kinds of events.
const (
	// Start and End: a client process begins, and ends because the suite ended it.
	Start Kind = "start"
	End   Kind = "end"
	// Ask: the client asks for the lock. Grant, Miss: the answer.
	Ask   Kind = "ask"
	Grant Kind = "grant"
	Miss  Kind = "miss"
	// Release: the client is about to unlock. Released: what came of it.
	Release  Kind = "release"
	Released Kind = "released"
	// Lost: the client was notified that its lease ended.
	Lost Kind = "lost"
	// Contended: the holder was notified that another client waits.
	Contended Kind = "wanted"
	// Write: an append to a register is about to be sent. Wrote: it was
	// acknowledged. Refused: the guard refused it. Unsure: no answer.
	Write   Kind = "write"
	Wrote   Kind = "wrote"
	Refused Kind = "refused"
	Unsure  Kind = "unsure"
	// Enter, Admit: the resource let a token in, to read or to write. Final is
	// its list when all was over.
	Enter Kind = "enter"
	Admit Kind = "admit"
	Final Kind = "final"
	// Fault and Healed: a fault begins and is over. Killed: a client was.
	Fault  Kind = "fault"
	Healed Kind = "healed"
	Killed Kind = "killed"
)

// Registers, in Event.Register.
const (
	Fenced   = "fenced"
	Unfenced = "unfenced"
)

// Event is one line of a history.
type Event struct {
	// At is CLOCK_MONOTONIC in nanoseconds, taken where it happened.
	At   int64  `json:"at"`
	Kind Kind   `json:"kind"`
	Who  string `json:"who,omitempty"`
	Lock string `json:"lock,omitempty"`
	// Token is the fencing token, 0 for a lock without tokens.
	Token int64 `json:"token,omitempty"`
	// Until is the last trusted deadline that the client knew.
	Until int64 `json:"until,omitempty"`
	// Idle is set for an unlock of a lock that may linger: it did not ask the store,
	// so it does not show that the lock was held until then.
	Idle bool `json:"idle,omitempty"`
	// Register, Value and List are about the resource.
	Register string   `json:"register,omitempty"`
	Value    string   `json:"value,omitempty"`
	List     []string `json:"list,omitempty"`
	// Text is a fault in words, or an error.
	Text string `json:"text,omitempty"`
}

// Now returns the common clock.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // no Linux is without it
	}
	return ts.Nano()
}

// origin is one instant on both clocks, so that a time.Time can be expressed on the
// common one. The two readings are nanoseconds apart, and the time in between
// makes a deadline earlier, never later.
var originMono, originTime = Now(), time.Now()

// Mono returns a time on the common clock; the zero time and the distant past are 0.
func Mono(t time.Time) int64 {
	d := t.Sub(originTime)
	if d < -24*time.Hour {
		return 0
	}
	return originMono + int64(d)
}

// Recorder writes events as lines. It is safe for concurrent use.
type Recorder struct {
	mu  sync.Mutex
	out io.Writer
}

// NewRecorder returns a recorder that writes to out, each event in one call, so
// that a kill leaves whole lines.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// Add stamps an event, unless it has a time, and writes it.
func (r *Recorder) Add(e Event) {
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // Event has nothing that cannot be marshaled
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.out.Write(append(line, '\n'))
}

// Read reads lines until the end and calls add for each event. A line that was
// cut short by a kill is the last one, and is left out.
func Read(in io.Reader, add func(Event)) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("history line %q: %w", line, err)
		}
		add(e)
	}
}

// Sort puts events into the order of the clock, and those of one instant as they
// came.
func Sort(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
}
