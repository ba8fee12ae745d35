// SPDX-License-Identifier: Apache-2.0

// Package peer puts lock libraries of others behind the methods of package lock,
// so that they go through the same workload and the same faults. Nothing is done
// to make one of them look bad:
//
//   - Where a library has no renewal (redsync), the adapter renews each third of
//     the expiry, and ends the context at the library's own deadline.
//   - Where a library has no deadline (rueidislock), its context is the word that
//     counts. A holder that is stopped is taken to trust the lock for half of its
//     validity, the least that is left after a punctual renewal.
//   - They have no fencing token. The guarded list cannot be used with them, so
//     they use the plain list only, and only after a check of their context and
//     deadline, as every lock does here.
package peer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/lab/internal/lock"
)

// Prefix of the kind of lock in a lock.Spec.
const Prefix = "peer:"

// Peer is one library with its settings.
type Peer struct {
	Name string
	// Settings are for people.
	Settings string
	open     lock.Maker
}

// Peers are all of them.
var Peers = []Peer{
	{"redsync", "on go-redis with ContextTimeoutEnabled; expiry is the TTL, WithFailFast, asks again after 20 to 60 ms (default 50 to 250) and without end; renewed by the adapter each third of the expiry", openRedsync},
	{"rueidislock", "KeyValidity is the TTL, TryNextAfter 200 ms (default 20), the rest by default", openRueidislock},
}

// Open makes the lock that a spec with the kind peer:NAME asks for.
func Open(s lock.Spec) (lock.Locks, error) {
	for _, p := range Peers {
		if p.Name == strings.TrimPrefix(s.Kind, Prefix) {
			return p.open(s)
		}
	}
	return nil, fmt.Errorf("there is no peer called %q", s.Kind)
}

// held is an acquisition of a peer.
type held struct {
	ctx      context.Context
	cancel   context.CancelFunc
	deadline atomic.Int64 // 0 if the library has none
	half     time.Duration
	seen     atomic.Int64 // when Trusted was asked last, before a pause
	paused   atomic.Bool
	once     sync.Once
	unlock   func(ctx context.Context) error
}

// Token implements lock.Held: the lock has no tokens.
func (h *held) Token() int64 { return 0 }

// Context implements lock.Held.
func (h *held) Context() context.Context { return h.ctx }

// Deadline implements lock.Held.
func (h *held) Deadline() time.Time {
	if d := h.deadline.Load(); d != 0 {
		return time.Unix(0, d)
	}
	return time.Now().Add(h.half)
}

// Trusted is until when the holder is taken to trust its lock, asked again and
// again while it runs. If no call asked for half the validity the process was
// stopped: what its context says for a moment when it goes on is not held against
// it. The library itself gives its users no such help.
func (h *held) Trusted() time.Time {
	if h.deadline.Load() != 0 {
		return h.Deadline()
	}
	now := time.Now().UnixNano()
	last := h.seen.Load()
	if last != 0 && now-last > int64(h.half) {
		h.paused.Store(true)
	}
	if !h.paused.Load() {
		h.seen.Store(now)
		last = now
	}
	return time.Unix(0, last).Add(h.half)
}

// Unlock implements lock.Held.
func (h *held) Unlock(ctx context.Context) (err error) {
	h.once.Do(func() { err = h.unlock(ctx) })
	return err
}
