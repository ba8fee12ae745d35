// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/core"
	"github.com/fencelock/fencelock/internal/enum"
)

// Hooks are called on what happens, for traces and metrics. A hook must return
// quickly and must not call the client. It may be called from several goroutines at once.
// Every hook may be nil.
type Hooks struct {
	// AcquireStart is called when an acquisition begins. The context it returns
	// is the one the acquisition goes on with.
	AcquireStart func(ctx context.Context, s AcquireStart) context.Context
	// AcquireWait is called once if the acquisition has to wait, with the
	// context of AcquireStart. It comes with the LeaseWaiting event, which has no
	// context.
	AcquireWait func(ctx context.Context, w AcquireWait)
	// AcquireEnd is called when it ends, with the context of AcquireStart.
	AcquireEnd func(ctx context.Context, e AcquireEnd)
	// OnceEnd is called when Once.Do ends, with its context.
	OnceEnd func(ctx context.Context, e OnceEnd)
	// Event is called on every transition.
	Event func(Event)
	// TraceParent returns the W3C traceparent of a context. It is stored in the
	// holder record, so that the trace of a waiter can link to that of the holder.
	TraceParent func(ctx context.Context) string
}

// OnceEnd describes an occurrence that ran, or that did not run.
type OnceEnd struct {
	// Name is the name given to Once, and Occurrence the one given to Do.
	Name, Occurrence string
	// Result is what Do returns. If Err is set and Result.Ran is not, it is not known whether the
	// occurrence has run.
	Result OnceResult
	// Took is how long Do took: the run, if there was one.
	Took time.Duration
	// Err is the error that Do returns.
	Err error
}

// AcquireStart describes an acquisition that begins.
type AcquireStart struct {
	// Name is the name of the lock.
	Name string
	// Mode is how it is to be held.
	Mode driver.Mode
	// Server is the kind of server that keeps the lock, such as "redis".
	Server string
	// Try is set if the acquisition does not wait for a holder.
	Try bool
}

// AcquireWait describes an acquisition that has to wait.
type AcquireWait struct {
	// Name is the name of the lock.
	Name string
	// Holder is in the way, nil if it is not known. Position is how many claims are
	// before this one in the store's queue.
	Holder   *Holder
	Position int
	// Grace is set if the store was reset: for that long it grants no new locks.
	Grace time.Duration
}

// AcquireEnd describes an acquisition that ended.
type AcquireEnd struct {
	AcquireStart
	// Lease is what was acquired, nil if Err is set.
	Lease *Lease
	// Waited is how long the acquisition took.
	Waited time.Duration
	// Err is why nothing was acquired.
	Err error
}

// EventKind is the kind of a transition.
type EventKind uint8

// The transitions of sessions and leases.
const (
	// SessionOpened: this process is known to a shard.
	SessionOpened EventKind = EventKind(core.SessionOpened)
	// SessionRenewalFailed: a keep-alive failed and is tried again; the session
	// is still trusted. Many of these mean that losses are near.
	SessionRenewalFailed EventKind = EventKind(core.SessionRenewalFailed)
	// SessionReset: the store lost its data; reclaiming begins.
	SessionReset EventKind = EventKind(core.SessionReset)
	// SessionResumed: the session is back and its leases were reclaimed.
	SessionResumed EventKind = EventKind(core.SessionResumed)
	// SessionLost: the session and all its leases are lost.
	SessionLost EventKind = EventKind(core.SessionLost)
	// SessionClosed: the session was closed, idle or with the client.
	SessionClosed EventKind = EventKind(core.SessionClosed)
	// LeaseWaiting: an acquisition has to wait, in the store's queue, where
	// Holder is in the way, or in the client's own queue.
	LeaseWaiting EventKind = EventKind(core.LeaseWaiting)
	// LeaseGranted: an acquisition succeeded with a round trip.
	LeaseGranted EventKind = EventKind(core.LeaseGranted)
	// LeaseHandedOff: it succeeded without one, by a local handoff, together
	// with another reader, or because the lock lingered. Re-entering is not a transition and has no event.
	LeaseHandedOff EventKind = EventKind(core.LeaseHandedOff)
	// LeaseReleased: a lease was unlocked.
	LeaseReleased EventKind = EventKind(core.LeaseReleased)
	// LeaseLost: a lease ended before it was unlocked; Err is the reason.
	LeaseLost EventKind = EventKind(core.LeaseLost)
	// ClaimWithdrawn: a claim of unknown outcome was cleaned up.
	ClaimWithdrawn EventKind = EventKind(core.ClaimWithdrawn)
	// SessionOpenFailed: a session cannot be opened, so no acquisition succeeds;
	// it is tried again while an acquisition waits. It is emitted once until a
	// session opens.
	SessionOpenFailed EventKind = EventKind(core.SessionOpenFailed)
	// LeaseSelfBlocked: an acquisition has waited for longer than Options.TTL
	// behind a lease of the same client. A goroutine that locks again without the
	// context of its lease waits for itself like this.
	LeaseSelfBlocked EventKind = EventKind(core.LeaseSelfBlocked)
	// LeaseRecalled: a lock that lingered was given back to the store; Waited is how long
	// that took. Taking it again while it lingers is LeaseHandedOff.
	LeaseRecalled EventKind = EventKind(core.LeaseRecalled)
)

// String returns the kind as words.
func (k EventKind) String() string {
	return enum.String("event", k, "", "session opened", "session renewal failed", "session reset", "session resumed",
		"session lost", "session closed", "lease waiting", "lease granted", "lease handed off", "lease released",
		"lease lost", "claim withdrawn", "session open failed", "lease self-blocked", "lease recalled")
}

// Event is one transition.
type Event struct {
	// Kind is what happened.
	Kind EventKind
	// Shard is always set. Session is set except for a wait in the client's own queue.
	Shard   string
	Session driver.SessionID
	// Name and Token are set for leases and claims.
	Name  string
	Token Token
	// Holder is set for LeaseWaiting, if it is known, and for LeaseSelfBlocked. Position
	// is how many claims are before the waiting one in the store's queue.
	Holder   *Holder
	Position int
	// Grace is set for LeaseWaiting if the store was reset: for that long it
	// grants no new locks.
	Grace time.Duration
	// Waited is how long an acquisition waited: set for LeaseGranted and
	// LeaseSelfBlocked, and 0 where it is not known. For LeaseRecalled it is how long
	// the store took to confirm.
	Waited time.Duration
	// Held is how long the lease was held: set for LeaseReleased and LeaseLost.
	Held time.Duration
	// Left is how much of the trusted time was left when a renewal failed.
	Left time.Duration
	// Err is the reason of a failure or a loss, and nil otherwise.
	Err error
}

// level is how loud a transition is.
func (e *Event) level() slog.Level {
	switch e.Kind {
	case SessionLost, LeaseLost, SessionReset, SessionRenewalFailed, SessionOpenFailed, LeaseSelfBlocked:
		return slog.LevelWarn
	case SessionOpened, SessionResumed, SessionClosed:
		return slog.LevelInfo
	}
	if e.Grace > 0 { // or the first lock of a new namespace seems to hang
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// message is the text of a transition in the log.
func (e *Event) message() string {
	text := "fencelock: " + e.Kind.String()
	switch {
	case e.Grace > 0:
		return text + ": " + core.InGrace(e.Grace).Error()
	case e.Kind == LeaseSelfBlocked:
		return text + ": this client holds the lock; a goroutine that holds it must lock again with its lease's context"
	}
	return text
}

// observer is a Client as the core sees it: it makes events of what the core reports.
type observer Client

// Event implements core.Observer: it calls the hook and writes the log.
func (o *observer) Event(of core.Event) {
	e := Event{Kind: EventKind(of.Kind), Shard: of.Shard, Session: of.Session, Name: of.Name, Token: of.Token, Holder: of.Holder,
		Position: of.Position, Grace: of.Grace, Waited: of.Waited, Held: of.Held, Left: of.Left, Err: of.Err}
	if o.opts.Hooks.Event != nil {
		o.opts.Hooks.Event(e)
	}
	if log := o.opts.Logger; log != nil && log.Enabled(context.Background(), e.level()) {
		log.LogAttrs(context.Background(), e.level(), e.message(), e.attrs(o.caps.Engine)...)
	}
}

// Waiting implements core.Observer.
func (o *observer) Waiting(ctx context.Context, w core.Wait) {
	if hook := o.opts.Hooks.AcquireWait; hook != nil {
		hook(ctx, AcquireWait(w))
	}
}

// attrs returns the attributes of the event in the log.
func (e *Event) attrs(server string) []slog.Attr {
	attrs := []slog.Attr{slog.String("server", server), slog.String("shard", e.Shard)}
	if e.Name != "" {
		attrs = append(attrs, slog.String("lock", e.Name))
	}
	if e.Token != 0 {
		attrs = append(attrs, slog.Int64("token", int64(e.Token)))
	}
	if e.Holder != nil {
		attrs = append(attrs, slog.String("holder", e.Holder.Record.Owner), slog.String("reason", e.Holder.Record.Reason))
	}
	if e.Waited > 0 {
		attrs = append(attrs, slog.Duration("waited", e.Waited))
	}
	if e.Held > 0 {
		attrs = append(attrs, slog.Duration("held", e.Held))
	}
	if e.Kind == SessionRenewalFailed {
		attrs = append(attrs, slog.Duration("left", e.Left))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	return attrs
}
