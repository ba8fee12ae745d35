// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"time"
)

// Harness connects the cases to the guard under test.
type Harness struct {
	// Name names the guard in reports.
	Name string

	// New returns a fresh value behind the guard: empty, never entered, and
	// guarded by the lock of that name. It is called once per case or more.
	New func(ctx context.Context, lock string) (*Value, error)

	// Restart makes the resource lose everything that it does not keep as
	// durably as the value, as a restart of its server does. Values stay
	// usable. If nil, the case that needs it is skipped.
	Restart func(ctx context.Context) error

	// Patience is how long a case waits for a call that seems to be blocked by
	// a stopped one before that one goes on; a quarter of a second by default.
	// It must be longer than a call takes that is not blocked: on a machine too
	// slow for that a mistake can stay unseen. Each blocked order costs it.
	Patience time.Duration

	// Soon is how long any call may take, 20 s by default.
	Soon time.Duration
}

const (
	defaultPatience = 250 * time.Millisecond
	refusesPatience = 10 * time.Second // below Soon: a blocked call must outlast it
	defaultSoon     = 20 * time.Second
)

// Value is one value behind the guard under test. Its functions take the token
// from the context, as the guard does, and must be safe for concurrent use:
// several holders call them.
type Value struct {
	// Enter raises the fence to the token in ctx and then reads the value.
	Enter func(ctx context.Context) (string, error)
	// Write replaces the value if the token in ctx is admitted.
	Write func(ctx context.Context, value string) error
	// Read returns the value, whatever the fence: it is how the cases read
	// what has become of it.
	Read func(ctx context.Context) (string, error)
	// LoseReply is Write with a reply that is lost on the way, by a client with
	// the settings that are in use: one that sends a write again is found out. It
	// calls Lost at that moment; Dialer does both. If nil, the cases that need
	// it are skipped.
	LoseReply func(ctx context.Context, value string) error
	// Reopen returns the same value as another process sees it: the guard and
	// its client are made again and share nothing with this one but the
	// resource. If nil, the cases that need it are skipped.
	Reopen func(ctx context.Context) (*Value, error)
}

func (h *Harness) patience() time.Duration {
	if h.Patience > 0 {
		return h.Patience
	}
	return defaultPatience
}

func (h *Harness) soon() time.Duration {
	if h.Soon > 0 {
		return h.Soon
	}
	return defaultSoon
}
