// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/testhook"
)

// Kind says what an event is.
type Kind uint8

// The kinds of events. Called and Unlocking are written before the call,
// Returned and Unlocked after it, so the place in the history is the order in
// real time even where the fake clock stands still.
const (
	Called        Kind = iota // a worker asks for a lock
	Returned                  // the answer: OK with a token, or Err
	Notified                  // the lease's context ended; Err is the cause
	Unlocking                 // the worker gives the lease back
	Unlocked                  // the answer: OK, or Err
	Reentered                 // a lock under the lease's context: OK with a token, or Err
	Read                      // the resource was read with the token: OK, N values seen
	Wrote                     // the resource was written with the token: OK, as value N
	Downgrading               // the worker makes its lease a reader's
	Downgraded                // the answer: OK, or Err
	Broke                     // an operator breaks the grant of Name with Token
	Limited                   // an operator stores a limit for Name: Limit, 0 for none
	Began                     // a worker runs the occurrence Name
	Ended                     // the occurrence has run here
	Marked                    // the answer of Once.Do: OK, or Err
	Campaigned                // an election was run: OK if it ended for a reason; Err is its answer
	Resigned                  // the answer of Resign: OK, or Err
	Observed                  // who leads, by the store: Token, 0 for none; Keep if it is only kept
	SessionLost               // a client lost a session
	SessionClosed             // a client let a session go
	Rejected                  // the store's answer Err ends the session, or refuses its renewal
	LeaseLost                 // a client lost its lease of Name with Token
	HandedOff                 // a client gave a grant of Name to one of its waiters, with Token
	SessionEnded              // a client knows from the store that its session has ended
	Remained                  // the store has a claim of a session when Close returns
	Suspended                 // the client's machine is suspended for D
	Resumed                   // and goes on
	Killed                    // the client's process died
	Closing                   // the client is closed
	Closed                    // the answer: OK, or Err
	LostData                  // the store lost all its data
	Restored                  // the store came back with older data
	Restarted                 // the store restarted and kept its data
	Stepped                   // the store's clock jumped by D
	Cleared                   // the last fault is over and so are its consequences
)

// String returns the kind in lower case.
func (k Kind) String() string {
	return [...]string{"called", "returned", "notified", "unlocking", "unlocked", "reentered", "read", "wrote",
		"downgrading", "downgraded", "broke", "limited", "began", "ended", "marked", "campaigned", "resigned", "observed", "session lost", "session closed", "rejected", "lease lost", "handed off", "session ended", "remained", "suspended", "resumed",
		"killed", "closing", "closed", "lost data", "restored", "restarted", "stepped", "cleared"}[k]
}

// Event is one line of a history. Its order is its place there.
type Event struct {
	At     time.Duration // since the schedule began
	Kind   Kind
	Client int // the fresh client of the end is one more than the last
	Worker int
	Acq    int // the acquisition it belongs to, from 1; 0: none
	// Of Called, for the acquisition.
	Name   string
	Mode   driver.Mode
	Weight int64
	Limit  int64 // of a semaphore; 0: none
	Try    bool
	// Reentry is the id of ReentrantAs.
	Reentry string
	// All is set if the acquisition is one of a LockAll: it asks for its name
	// some time after it was called, and has it some time before it returns.
	All  bool
	D    time.Duration // Called: the patience, Stepped: the step
	Keep time.Duration // Called: MinHold
	// Linger is set if the lock may stay with the client after the unlock.
	Linger bool
	// Since is a place in the history: for Began the one where Once.Do was
	// called, for Restored the one where the older data was copied, for
	// SessionEnded the one where the store ended the session, for Remained the one
	// where the store removed the claim for a client that was answered, or 0.
	Since int
	// Back are, for Restored, the grants that the older data has.
	Back []leaseID
	// Session is the one that an event is about.
	Session driver.SessionID
	// Of what came back.
	Token driver.Token
	OK    bool
	N     int
	Err   error
}

// String returns the event on one line.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.4fs %-9s c%d.%d", e.At.Seconds(), e.Kind, e.Client, e.Worker)
	if e.Acq != 0 {
		fmt.Fprintf(&b, " #%d", e.Acq)
	}
	if e.Kind == Called {
		fmt.Fprintf(&b, " %s %s", e.Name, e.Mode)
		if e.Limit > 0 {
			fmt.Fprintf(&b, " %d of %d", e.Weight, e.Limit)
		}
		if e.Try {
			b.WriteString(" try")
		}
		if e.Keep > 0 {
			fmt.Fprintf(&b, " keep %v", e.Keep)
		}
		if e.Linger {
			b.WriteString(" lingering")
		}
		if e.Reentry != "" {
			fmt.Fprintf(&b, " as %s", e.Reentry)
		}
		if e.All {
			b.WriteString(" with others")
		}
	} else if e.Name != "" {
		fmt.Fprintf(&b, " %s", e.Name)
	}
	if e.Kind == Limited {
		fmt.Fprintf(&b, " to %d", e.Limit)
	}
	if e.D != 0 {
		fmt.Fprintf(&b, " %v", e.D)
	}
	if e.Session != (driver.SessionID{}) {
		fmt.Fprintf(&b, " session %.8s", e.Session)
	}
	if e.Token != 0 {
		fmt.Fprintf(&b, " token %d+%d", e.Token/driver.TokenStep, e.Token%driver.TokenStep)
	}
	if e.Kind == Read || e.Kind == Wrote {
		fmt.Fprintf(&b, " n=%d accepted=%v", e.N, e.OK)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, " %v", e.Err)
	}
	return b.String()
}

// Claim is what the tap saw of one claim of one instance of its session in the
// store: when it first arrived there and which token it got.
type Claim struct {
	Client        int
	Name          string
	Queue         bool
	Reentry       bool // it may join a grant, past the queue
	Before, After int  // the tap's count before and after its first attempt
	Position      int  // in the history, when its first attempt got to the store
	Token         driver.Token
	Again         driver.Token // another one that it got later; 0: none
	// Restless is set if the claim lived through a data loss: the queue was
	// built again then.
	Restless bool
	// Reclaimed is set if an earlier instance of the session granted the token, and
	// Reclaim put the grant back into this one.
	Reclaimed bool
}

// History is all that is known of a schedule that was run. Checkers are
// functions of it.
type History struct {
	Schedule *Schedule
	Events   []Event
	Claims   []Claim
	// Struck counts per client the calls that were bent by a fault.
	Struck []int
	// Spun says per client whether it called the store without end.
	Spun []bool
	// Left is what the store keeps when all workers have ended.
	Left []Left
	// Rest is what the store keeps when all clients are closed; empty: nothing.
	Rest string
	// Stuck is what went wrong with the run itself, such as a goroutine that
	// was left over.
	Stuck error
}

// Left is one session that the store keeps when all workers have ended.
type Left struct {
	Client int
	Alive  bool // the client's process lives
	testhook.Session
}

// recorder writes a history while it happens.
type recorder struct {
	start time.Time
	mu    sync.Mutex
	acqs  int
	h     *History
}

func newRecorder(s *Schedule) *recorder {
	return &recorder{start: time.Now(), h: &History{Schedule: s, Events: make([]Event, 0, 2048)}}
}

func (r *recorder) now() time.Duration { return time.Since(r.start) }

// add stamps an event and appends it.
func (r *recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = r.now()
	r.h.Events = append(r.h.Events, e)
}

// place returns how many events there are.
func (r *recorder) place() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.h.Events)
}

// call appends a Called event and returns the number of its acquisition.
func (r *recorder) call(e Event) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acqs++
	e.At, e.Kind, e.Acq = r.now(), Called, r.acqs
	r.h.Events = append(r.h.Events, e)
	return e.Acq
}

// Report says what was violated, in which schedule, and how to see it again.
// Its first line is for programs.
func (v Violation) Report(s *Schedule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "VIOLATION checker=%s seed=%d\n", v.Checker, s.Seed)
	for _, c := range Checkers {
		if c.Name == v.Checker {
			fmt.Fprintf(&b, "  must hold: %s\n", c.Property)
		}
	}
	fmt.Fprintf(&b, "  found: %s\n", v.What)
	for _, e := range v.Events {
		fmt.Fprintf(&b, "    %s\n", e)
	}
	replay := fmt.Sprintf("go test ./lab/sim -run TestSchedules -sim.seed=%d -v", s.Seed)
	fmt.Fprintf(&b, "  schedule: %s", s)
	fmt.Fprintf(&b, "  replay: %s\n", replay)
	fmt.Fprintf(&b, "  with other faults: %s -sim.fault='%s'\n", replay, s.Faults())
	return b.String()
}

// Lines returns all events of a history, one per line.
func (h *History) Lines() string {
	var b strings.Builder
	for n, e := range h.Events {
		fmt.Fprintf(&b, "%5d %s\n", n, e)
	}
	return b.String()
}
