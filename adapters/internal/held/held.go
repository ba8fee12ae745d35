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
}

// New returns no leases yet. Names of locks begin with prefix. Without onLost a loss is
// logged.
func New(prefix string, onLost OnLost) *Leases {
	if onLost == nil {
		onLost = func(name string, err error) {
			slog.Error("fencelock: a lock was lost while its work goes on", "lock", prefix+name, "error", err)
		}
	}
	return &Leases{prefix: prefix, onLost: onLost, of: map[string][]*fencelock.Lease{}}
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

// Err returns nil if the lease of a name is held, and otherwise why it is not: the reason of
// the loss, if there is one that was not unlocked.
func (h *Leases) Err(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.of[name]
	if len(of) == 0 {
		return h.notLocked("renew", name)
	}
	return of[next(of)].Err()
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
	return l.Unlock(ctx)
}

// next is the lease that a call by name is about: one that was lost, if there is one. The
// caller may be the one that holds the lock, and is then wrongly notified of a loss. The
// other way around, work that lost its lock would unlock the lock of another.
func next(of []*fencelock.Lease) int {
	return max(0, slices.IndexFunc(of, func(l *fencelock.Lease) bool { return l.Err() != nil }))
}

func (h *Leases) notLocked(op, name string) error {
	return fmt.Errorf("fencelock: %s %q: it is not locked here; only the value that locked it can %s it", op, h.Lock(name), op)
}
