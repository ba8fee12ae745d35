// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"log/slog"
	"time"
)

// Hooks are called on what happens, for traces and metrics. A hook must return
// quickly and must not call the client. Every hook may be nil.
type Hooks struct {
	// AcquireStart is called when an acquisition begins. The context it returns
	// is the one the acquisition goes on with.
	AcquireStart func(ctx context.Context, s AcquireStart) context.Context
	// AcquireWait is called once if the acquisition has to wait, with the
	// context of AcquireStart. It comes with the LeaseWaiting event, which
	// cannot tell whose wait it is.
	AcquireWait func(ctx context.Context, w AcquireWait)
	// AcquireEnd is called when it ends, with the context of AcquireStart.
	AcquireEnd func(ctx context.Context, e AcquireEnd)
	// Event is called on every transition.
	Event func(Event)
	// TraceParent returns the W3C traceparent of a context. It is stored in the
	// holder record, so that whoever waits can link to whoever blocks.
	TraceParent func(ctx context.Context) string
}

// AcquireStart describes an acquisition that begins.
type AcquireStart struct {
	Name   string
	Mode   Mode
	Engine string
	Try    bool
}

// AcquireWait describes an acquisition that has to wait.
type AcquireWait struct {
	// Name is of the lock.
	Name string
	// Holder is in the way, nil if nobody could tell, and Place is how many
	// wait before it in the store's line.
	Holder *Holder
	Place  int
}

// AcquireEnd describes an acquisition that ended.
type AcquireEnd struct {
	AcquireStart
	// Lease is nil if Err is not.
	Lease  *Lease
	Waited time.Duration
	Err    error
}

// EventKind says what happened.
type EventKind uint8

// The transitions of sessions and leases.
const (
	// SessionOpened: this process is known to a shard.
	SessionOpened EventKind = iota
	// SessionRenewalFailed: a keep-alive failed and is tried again; the session
	// is still trusted. Many of these mean that losses are near.
	SessionRenewalFailed
	// SessionForgotten: the store lost its memory; reclaiming begins.
	SessionForgotten
	// SessionResumed: the session is back and its leases were reclaimed.
	SessionResumed
	// SessionLost: the session and all its leases are lost.
	SessionLost
	// SessionClosed: the session was let go, idle or with the client.
	SessionClosed
	// LeaseWaiting: an acquisition has to wait, in the store's line, where
	// Holder is in the way, or in the client's own.
	LeaseWaiting
	// LeaseGranted: an acquisition succeeded with a round trip.
	LeaseGranted
	// LeasePassed: it succeeded without one, by a local hand-over or together
	// with another reader. Re-entering is no transition and has no event.
	LeasePassed
	// LeaseReleased: a lease was unlocked.
	LeaseReleased
	// LeaseLost: a lease ended before it was unlocked; Err says why.
	LeaseLost
	// ClaimSettled: a claim of unknown outcome was cleaned up.
	ClaimSettled
)

// String returns the kind as words.
func (k EventKind) String() string {
	return [...]string{"session opened", "session renewal failed", "session forgotten", "session resumed",
		"session lost", "session closed", "lease waiting", "lease granted", "lease passed", "lease released",
		"lease lost", "claim settled"}[k]
}

// Event is one transition.
type Event struct {
	Kind EventKind
	// Shard is set for all, Session for all but waiting in the client's line.
	Shard   string
	Session SessionID
	// Name and Token are set for leases and claims.
	Name  string
	Token Token
	// Holder is set for LeaseWaiting if the store could tell, and Place is how
	// many wait before it in the store's line.
	Holder *Holder
	Place  int
	// Took is how long was waited or held, or how much of the trusted time was
	// left when a renewal failed.
	Took time.Duration
	Err  error
}

// level is how loud a transition is.
func (e *Event) level() slog.Level {
	switch e.Kind {
	case SessionLost, LeaseLost, SessionForgotten:
		return slog.LevelWarn
	case SessionOpened, SessionResumed, SessionClosed, SessionRenewalFailed:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// emit tells hook and log.
func (c *Client) emit(e Event) {
	if c.opts.Hooks.Event != nil {
		c.opts.Hooks.Event(e)
	}
	if c.opts.Logger == nil || !c.opts.Logger.Enabled(context.Background(), e.level()) {
		return
	}
	attrs := []slog.Attr{slog.String("engine", c.caps.Engine), slog.String("shard", e.Shard)}
	if e.Name != "" {
		attrs = append(attrs, slog.String("lock", e.Name))
	}
	if e.Token != 0 {
		attrs = append(attrs, slog.Int64("token", int64(e.Token)))
	}
	if e.Holder != nil {
		attrs = append(attrs, slog.String("holder", e.Holder.Record.Owner), slog.String("reason", e.Holder.Record.Reason))
	}
	if e.Took > 0 {
		attrs = append(attrs, slog.Duration("took", e.Took))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	c.opts.Logger.LogAttrs(context.Background(), e.level(), "fencelock: "+e.Kind.String(), attrs...)
}

// watched says whether anybody listens: building an event costs.
func (c *Client) watched() bool {
	return c.opts.Hooks.Event != nil || c.opts.Hooks.AcquireWait != nil || c.opts.Logger != nil
}
