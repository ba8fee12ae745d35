// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"

	"github.com/fencelock/fencelock"
)

// unlocks are those that the store has not answered yet. They are guarded by the mutex of all leases.
type unlocks struct {
	n    int
	none chan struct{} // closed when there are no more; nil while no call waits for that
}

// doneLocked notes an answer. ls.mu must be held.
func (u *unlocks) doneLocked() {
	if u.n--; u.n == 0 && u.none != nil {
		close(u.none)
		u.none = nil
	}
}

// unlock gives a lease back. A nil lease was never held.
func (ls *Leases) unlock(ctx context.Context, held *fencelock.Lease) error {
	if held == nil {
		return nil
	}
	ls.mu.Lock()
	ls.unlocks.n++
	ls.mu.Unlock()
	return ls.unlockCounted(ctx, held)
}

// unlockLaterLocked unlocks in the background. ls.mu must be held.
func (ls *Leases) unlockLaterLocked(held *fencelock.Lease) {
	if held != nil {
		ls.unlocks.n++
		go func() { _ = ls.unlockCounted(context.Background(), held) }()
	}
}

// unlockCounted unlocks. The client of the store repeats what is not confirmed.
func (ls *Leases) unlockCounted(ctx context.Context, held *fencelock.Lease) error {
	defer func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.unlocks.doneLocked()
	}()
	return held.Unlock(ctx)
}

// Unlocked waits until the store has answered every unlock, or ctx ends, and returns how many it has not answered. A process that
// ends before leaves these locks taken until the session of its server ends.
func (ls *Leases) Unlocked(ctx context.Context) (left int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for ls.unlocks.n > 0 && ctx.Err() == nil {
		if ls.unlocks.none == nil {
			ls.unlocks.none = make(chan struct{})
		}
		none := ls.unlocks.none
		ls.mu.Unlock()
		select {
		case <-none:
		case <-ctx.Done():
		}
		ls.mu.Lock()
	}
	return ls.unlocks.n
}
