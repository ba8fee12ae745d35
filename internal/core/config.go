// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
)

// Config is what the machine needs of the API above it.
type Config struct {
	Store driver.Store
	Clock *clock.Clock
	// The times are those of fencelock.Options, with defaults filled in.
	TTL          time.Duration
	Drift        float64
	Margin       time.Duration
	CallTimeout  time.Duration
	StoreTimeout time.Duration
	LocalHandoff time.Duration
	// NewLease returns the state of a new lease of the API, which holds it: one
	// allocation for both.
	NewLease func() *Lease
	// Error, Busy, Grace and Lost make errors of the API.
	Error func(Failure) error
	Busy  func(Busy) error
	Grace func(Grace) error
	Lost  func(Loss) error
	// Observer may be nil: then no event is built.
	Observer Observer
}

// Observer is called on transitions, without a mutex held.
type Observer interface {
	// Event is called on every transition.
	Event(Event)
	// Waiting is called once if an acquisition has to wait, with its context.
	Waiting(ctx context.Context, w Wait)
}

// Failure is an error of an operation on a lock.
type Failure struct {
	Op, Name string
	Err      error
	Hint     string
	Waited   time.Duration
	Holder   *driver.Holder
}

// Busy is why a try was not granted.
type Busy struct {
	Name    string
	Holders []driver.Holder
}

// Grace is why a store that answers grants nothing.
type Grace struct {
	Name       string
	RetryAfter time.Duration
}

// Wait is what an acquisition waits for.
type Wait struct {
	Name     string
	Holder   *driver.Holder
	Position int
	Grace    time.Duration
}

// Event is one transition of a session, a lease or a claim.
type Event struct {
	Kind     EventKind
	Shard    string
	Session  driver.SessionID
	Name     string
	Token    driver.Token
	Holder   *driver.Holder
	Position int
	Grace    time.Duration
	Waited   time.Duration
	Held     time.Duration
	Left     time.Duration
	Err      error
}

// EventKind is the kind of a transition. The API documents the kinds.
type EventKind uint8

// The kinds of transitions.
const (
	SessionOpened EventKind = iota + 1
	SessionRenewalFailed
	SessionReset
	SessionResumed
	SessionLost
	SessionClosed
	LeaseWaiting
	LeaseGranted
	LeaseHandedOff
	LeaseReleased
	LeaseLost
	ClaimWithdrawn
	SessionOpenFailed
	LeaseSelfBlocked
	LeaseRecalled
)
