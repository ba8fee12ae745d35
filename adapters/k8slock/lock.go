// SPDX-License-Identifier: Apache-2.0

package k8slock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// Options are the settings of a Lock.
type Options struct {
	// Identity names this candidate, and is what LeaderElector.GetLeader returns while it
	// leads. The host's name and a random number if it is empty.
	Identity string
}

// Lock is a resourcelock.Interface for one term of one elector. R is
// resourcelock.LeaderElectionRecord. It is safe for concurrent use.
type Lock[R any] struct {
	client         *fencelock.Client
	mutex          *fencelock.Mutex
	name, identity string
	cancel         context.CancelCauseFunc // of the context of New

	mu    sync.Mutex
	phase phase
	lease *fencelock.Lease // in phase leading, and kept in phase over
	since time.Time        // of the lease
	// duration is LeaseDuration of the elector.
	duration time.Duration
	// elected is set once an elector has reported that it leads.
	elected bool
	// why is what ended the term, in phase over.
	why error
}

// phase is what a Lock is in.
type phase int

const (
	campaigning phase = iota
	acquiring         // a call to the store is under way
	leading
	over // for good
)

// errShared ends the term of a Lock that two electors use: each would take the lease of the
// other for its own.
var errShared = errors.New("two electors use this Lock; make one Lock for each")

// errStopped ends the term of an elector that stopped.
var errStopped = errors.New("the elector stopped")

// New returns a Lock and the context to run the elector under, as in LeaderElector.Run or
// Manager.Start: it ends with ctx, and when the lock is lost. opts may be nil. New fails if R
// is not resourcelock.LeaderElectionRecord. It does no I/O.
func New[R any](ctx context.Context, c *fencelock.Client, name string, opts *Options) (*Lock[R], context.Context, error) {
	identity := ""
	if opts != nil {
		identity = opts.Identity
	}
	if identity == "" {
		identity = someIdentity()
	}
	if err := checkRecord[R](); err != nil {
		return nil, nil, fmt.Errorf("k8slock: lock %q: %w", name, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	mutex := c.Mutex(name, fencelock.Reason("leader election"), fencelock.Label(identityLabel, identity))
	return &Lock[R]{client: c, mutex: mutex, name: name, identity: identity, cancel: cancel}, ctx, nil
}

// Identity returns the name of this candidate.
func (k *Lock[R]) Identity() string { return k.identity }

// Describe returns the name of the lock and the server that keeps it.
func (k *Lock[R]) Describe() string { return k.name + " (" + k.client.Guarantees().Server + ")" }

// Lease returns the lease while this candidate leads, and nil otherwise: its token protects
// what the leader writes.
func (k *Lock[R]) Lease() *fencelock.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != leading || !k.lease.Valid() {
		return nil
	}
	return k.lease
}

// Get returns the holder of the lock as a record, with an empty identity if it is free.
func (k *Lock[R]) Get(ctx context.Context) (*R, []byte, error) {
	k.mu.Lock()
	now := time.Now()
	switch err := k.endedLocked(); {
	case err != nil:
		k.mu.Unlock()
		return nil, nil, err
	case k.phase == leading: // without I/O, so that a store that does not answer delays no release
		r := ours(k.identity, k.since, now, k.lease.Token(), k.client.Guarantees().TTL)
		k.mu.Unlock()
		return encode[R](r)
	}
	k.mu.Unlock()
	st, err := k.client.Inspect(ctx, k.name)
	if err != nil {
		return nil, nil, err
	}
	return encode[R](theirs(st, k.identity, now, k.client.Guarantees().TTL))
}

// Create is Update. An elector calls it only if Get reports that there is no record, which
// it does not.
func (k *Lock[R]) Create(ctx context.Context, r R) error { return k.Update(ctx, r) }

// Update acquires the lock, or fails at once if another candidate leads. Called by the leader
// it reports whether the lease is held still; the client renews it. A record without an
// identity gives the lock back.
func (k *Lock[R]) Update(ctx context.Context, r R) error {
	asked, err := decode(r)
	if err != nil {
		return k.failed(err)
	}
	k.mu.Lock()
	err = k.endedLocked()
	switch {
	case err != nil:
	case asked.Holder == "":
		return k.release(ctx)
	case asked.Holder != k.identity:
		err = k.failed(fmt.Errorf("the record names %q, and this candidate is %q; make one Lock for each candidate", asked.Holder, k.identity))
	case k.phase == leading:
		k.duration = asked.duration()
	case k.phase == acquiring:
		err = k.failed(errShared)
	default:
		k.phase, k.duration = acquiring, asked.duration()
		k.mu.Unlock()
		return k.acquire(ctx)
	}
	k.mu.Unlock()
	return err
}

// acquire tries to begin the term.
func (k *Lock[R]) acquire(ctx context.Context) error {
	l, err := k.mutex.TryLock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.phase == over: // closed during the call
		go func() { _ = l.Unlock(context.Background()) }()
		return k.endedLocked()
	case err != nil:
		k.phase = campaigning
		return err
	}
	k.phase, k.lease, k.since = leading, l, time.Now()
	context.AfterFunc(l.Context(), func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		_ = k.endedLocked()
	})
	return nil
}

// release gives the lock back when the elector asks for it, and unlocks k.mu.
func (k *Lock[R]) release(ctx context.Context) error {
	l := k.lease
	k.endLocked(errStopped)
	k.mu.Unlock()
	return unlocked(l.Unlock(ctx))
}

// RecordEvent learns that an elector began to lead, and that it stopped. Without
// ReleaseOnCancel the work of the leader may go on for some time, so the lock stays taken.
func (k *Lock[R]) RecordEvent(event string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case event == "became leader" && k.elected:
		k.endLocked(errShared)
	case event == "became leader":
		k.elected = true
	case event == "stopped leading":
		k.endLocked(errStopped)
		if l := k.lease; l != nil {
			time.AfterFunc(k.duration, func() { _ = l.Unlock(context.Background()) })
		}
	}
}

// Close gives the lock back and ends the context of New. Call it when the elector and the
// work have returned.
func (k *Lock[R]) Close(ctx context.Context) error {
	k.mu.Lock()
	k.endLocked(errors.New("it was closed"))
	l := k.lease
	k.mu.Unlock()
	return unlocked(l.Unlock(ctx))
}

// endedLocked notices a loss, and returns why the term is over. k.mu must be held.
func (k *Lock[R]) endedLocked() error {
	if k.phase == leading && k.lease.Err() != nil {
		k.endLocked(k.lease.Err())
	}
	if k.phase != over {
		return nil
	}
	return k.failed(fmt.Errorf("the term is over; use a new Lock to campaign again: %w", k.why))
}

// endLocked ends the term, and with it the elector. k.mu must be held.
func (k *Lock[R]) endLocked(why error) {
	if k.phase == over {
		return
	}
	k.phase, k.why = over, why
	k.cancel(why)
}

func (k *Lock[R]) failed(err error) error {
	return fmt.Errorf("k8slock: lock %q, candidate %q: %w", k.name, k.identity, err)
}

// unlocked drops the error of an unlock that the store did not confirm, which is repeated in
// the background, and of a lease that was lost: the elector knows of the loss.
func unlocked(err error) error {
	if errors.Is(err, fencelock.ErrReleased) || errors.Is(err, fencelock.ErrLost) {
		return nil
	}
	return err
}
