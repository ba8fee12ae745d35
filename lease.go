// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencelock/fencelock/internal/core"
)

// Lease is one acquisition. It is never reused: after Unlock, or after it was
// lost, it stays ended. It is safe for concurrent use.
type Lease struct {
	c    *Client
	core core.Lease
}

// lease returns the lease of which core has the state.
func lease(l *core.Lease) *Lease {
	if l == nil {
		return nil
	}
	return l.Public.(*Lease)
}

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.core.Name() }

// Owner returns the owner in the holder record of this acquisition, as Inspect
// shows it: [Options.Owner], or that of OwnedBy.
func (l *Lease) Owner() string { return l.core.Owner() }

// Token returns the fencing token of this acquisition. It is greater than the
// token of every acquisition of this name that it could conflict with and that
// was granted before. Between shared leases that overlap the order means
// nothing: readers that are let in together get theirs in any order. On a store
// without fencing it is 0, which every guard refuses.
func (l *Lease) Token() Token { return l.core.Token() }

// Deadline returns until when the lease is trusted as things stand. It moves on
// with every renewal, up to the end of a MaxHold. After the lease
// has ended it is in the past.
func (l *Lease) Deadline() time.Time { return l.core.Deadline() }

// Valid compares the clock with Deadline at this moment, without a round trip.
// It is advice: the process can be paused right after it. What must not happen
// twice needs the token checked at the resource.
func (l *Lease) Valid() bool { return l.core.Valid() }

// Err returns nil while the lease is held, [ErrReleased] after Unlock, [ErrClosed] after the
// client was closed, and an error that wraps [ErrLost] and the reason after it was lost.
func (l *Lease) Err() error { return l.core.Err() }

// Context returns a context that carries the lease. It ends, with Err as its
// cause, at the trusted deadline at the latest, whatever call is in flight, and
// when the lease is unlocked. It has the values of the context the lease was
// acquired with but ends with the lease only; WithContext returns one that ends
// with a caller's context too. Locking the same name under it re-enters.
func (l *Lease) Context() context.Context { return l.core.Context() }

// WithContext returns a context that carries the lease and ends with ctx as well as
// with the lease, with Err as its cause if it was the lease. Work that should stop
// when its request is canceled or its lock is lost runs under it. The caller must
// call the CancelFunc when the work is done; it does not unlock the lease, although the
// cause of the returned context is [ErrReleased] then.
func (l *Lease) WithContext(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(core.WithLease(ctx, &l.core))
	held := l.Context()
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return bound, func() { stop(); cancel(ErrReleased) }
}

// Contended returns a channel that is closed when another caller waits for the lock, so that
// long work can give way at a good moment:
//
//	select {
//	case <-lease.Contended():
//		return nil // and unlock; the rest is done the next time
//	case <-ctx.Done():
//	...
//
// A goroutine of the same client closes it at once, another process as soon as
// [Guarantees.Contended] promises. It is a hint: a notice may be lost, and a caller that waited
// may have given up. TryLock does not close it, and neither does the end of the lease.
//
// The first call makes one call to the store in the background. The channel of a lease that has
// ended is nil.
func (l *Lease) Contended() <-chan struct{} { return l.core.Contended() }

// Unlock gives the lease back. The lease is over in any case, and the lock is given back even if
// ctx has ended: ctx and [Options.CallTimeout] bound the wait for the store's confirmation.
//
// The error wraps [ErrLost] if the lease had been lost before. It wraps [ErrReleased], with
// [ErrUnavailable] or the error of ctx, if the store did not confirm; the unlock is then repeated
// in the background until the session ends. After [Client.Close] it is [ErrClosed].
//
// Unlocking again returns the same answer, and unlocking a nil lease does nothing. An unlock that
// hands the lock to a goroutine of the same client does not ask the store.
func (l *Lease) Unlock(ctx context.Context) error {
	if l == nil {
		return nil
	}
	return l.unlocked(l.core.Unlock(ctx, 0))
}

// LogValue shows the lease in logs as name and token.
func (l *Lease) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lock", l.Name()), slog.Int64("token", int64(l.Token())))
}

// unlocked returns the answer of an unlock. That of a lease which had been lost before names
// the lock, too.
func (l *Lease) unlocked(err error) error {
	if err == nil {
		return nil // without the variable below, which the heap would have
	}
	var named *Error
	if !errors.Is(err, ErrLost) || errors.As(err, &named) {
		return err
	}
	return &Error{Op: "unlock", Name: l.Name(), Server: l.c.caps.Engine, Err: err}
}

// do runs fn under the lease and unlocks it.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context, l *Lease) error) (err error) {
	bound, stop := l.WithContext(ctx)
	defer stop()
	defer func() {
		// Even when fn panics, the lock is released, and the panic goes on.
		err = joined(err, l.Unlock(ctx))
	}()
	return fn(bound, l)
}

// FromContext returns the innermost lease of that name that ctx carries, or
// nil. Guards use it, so that a token need not be passed by hand.
func FromContext(ctx context.Context, name string) *Lease {
	for l := range core.Leases(ctx) {
		if l.Name() == name {
			return lease(l)
		}
	}
	return nil
}

// Innermost returns the lease that was added to ctx last, of whatever name, or nil. Where
// Do and [Lease.Context] are nested, that is the one that was acquired last.
func Innermost(ctx context.Context) *Lease {
	for l := range core.Leases(ctx) {
		return lease(l)
	}
	return nil
}
