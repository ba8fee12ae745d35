// SPDX-License-Identifier: Apache-2.0

// Package held keeps the leases of hosts that unlock by name, and reports losses to hosts
// that cannot be notified of them.
package held

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/fencelock/fencelock"
)

// OnLost is called with the name that the host uses, when a lease was lost while its host
// worked under it. err wraps fencelock.ErrLost.
type OnLost func(name string, err error)

// Leases are leases by the name that their host uses. Locks are exclusive, so at most one
// lease of a name is held. Others of the name were lost, and their work goes on: a host
// that waits for the lock in two goroutines can have both.
type Leases struct {
	prefix string
	onLost OnLost

	mu sync.Mutex
	of map[string][]*fencelock.Lease
	// renewing are the lost leases that are being replaced; closed when that has ended.
	renewing map[*fencelock.Lease]chan struct{}
}

// New returns no leases yet. Names of locks begin with prefix. Without onLost a loss is
// logged.
func New(prefix string, onLost OnLost) *Leases {
	if onLost == nil {
		onLost = func(name string, err error) {
			slog.Error("fencelock: a lock was lost while its work goes on", "lock", prefix+name, "error", err)
		}
	}
	return &Leases{prefix: prefix, onLost: onLost, of: map[string][]*fencelock.Lease{}, renewing: map[*fencelock.Lease]chan struct{}{}}
}

// Lock is the name of the lock for a name of the host.
func (h *Leases) Lock(name string) string { return h.prefix + name }

// Watch reports a loss of l, until it is unlocked.
func (h *Leases) Watch(name string, l *fencelock.Lease) {
	context.AfterFunc(l.Context(), func() {
		if err := l.Err(); errors.Is(err, fencelock.ErrLost) {
			h.onLost(name, err)
		}
	})
}

// Add keeps a lease that was just acquired, and watches it.
func (h *Leases) Add(name string, l *fencelock.Lease) {
	h.mu.Lock()
	h.of[name] = append(h.of[name], l)
	h.mu.Unlock()
	h.Watch(name, l)
}

// Renew returns nil if the lease of a name is held. One that was lost is replaced by what
// again acquires; otherwise work that goes on for days could never go on. A lease is
// replaced once, however many callers renew it: the second would find the lock busy, held
// by the first.
func (h *Leases) Renew(ctx context.Context, name string, again func() (*fencelock.Lease, error)) error {
	for {
		h.mu.Lock()
		of := h.of[name]
		if len(of) == 0 {
			h.mu.Unlock()
			return h.notLocked("renew", name)
		}
		lost := of[next(of)]
		if lost.Err() == nil {
			h.mu.Unlock()
			return nil
		}
		other := h.renewing[lost]
		if other == nil {
			h.renewing[lost] = make(chan struct{})
			h.mu.Unlock()
			return h.replace(ctx, name, lost, again)
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return errors.Join(lost.Err(), ctx.Err())
		}
	}
}

// replace puts what again acquires in the place of a lease that was lost.
func (h *Leases) replace(ctx context.Context, name string, lost *fencelock.Lease, again func() (*fencelock.Lease, error)) error {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.renewing[lost])
		delete(h.renewing, lost)
	}()
	fresh, err := again()
	if err != nil {
		return errors.Join(lost.Err(), err)
	}
	h.mu.Lock()
	at := slices.Index(h.of[name], lost)
	if at >= 0 {
		h.of[name][at] = fresh
	}
	h.mu.Unlock()
	if at < 0 { // it was unlocked during the acquisition
		return errors.Join(lost.Err(), fresh.Unlock(ctx))
	}
	h.Watch(name, fresh)
	return nil
}

// Unlock gives a lease of a name back.
func (h *Leases) Unlock(ctx context.Context, name string) error {
	h.mu.Lock()
	of := h.of[name]
	if len(of) == 0 {
		h.mu.Unlock()
		return h.notLocked("unlock", name)
	}
	at := next(of)
	l := of[at]
	if h.of[name] = slices.Delete(of, at, at+1); len(of) == 1 {
		delete(h.of, name)
	}
	h.mu.Unlock()
	return Confirmed(l.Unlock(ctx))
}

// Confirmed drops the error of an unlock that the store did not confirm: it is repeated in
// the background, and hosts take any error for work that failed. A loss stays an error.
func Confirmed(err error) error {
	if errors.Is(err, fencelock.ErrReleased) && !errors.Is(err, fencelock.ErrLost) {
		return nil
	}
	return err
}

// next is the lease that a call by name is about: one that was lost, if there is one. The
// caller may be the one that holds the lock: it is then wrongly notified of a loss, and
// its lock stays taken until the work that lost it unlocks, too. The other way around, work
// that lost its lock would unlock the lock of another.
func next(of []*fencelock.Lease) int {
	return max(0, slices.IndexFunc(of, func(l *fencelock.Lease) bool { return l.Err() != nil }))
}

func (h *Leases) notLocked(op, name string) error {
	return fmt.Errorf("fencelock: %s %q: it is not locked here; only the value that locked it can %s it", op, h.Lock(name), op)
}
