// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"

	"github.com/fencelock/fencelock"
)

// unlocks are those that the store has not answered yet. They are guarded by the mutex of the book.
type unlocks struct {
	n    int
	none chan struct{} // closed when there are no more; nil while no call waits for that
}

// doneLocked notes an answer. b.mu must be held.
func (u *unlocks) doneLocked() {
	if u.n--; u.n == 0 && u.none != nil {
		close(u.none)
		u.none = nil
	}
}

// unlock gives a lease back. A nil lease was never held.
func (b *Book) unlock(ctx context.Context, held *fencelock.Lease) error {
	if held == nil {
		return nil
	}
	b.mu.Lock()
	b.unlocks.n++
	b.mu.Unlock()
	return b.unlockCounted(ctx, held)
}

// unlockLaterLocked unlocks in the background. b.mu must be held.
func (b *Book) unlockLaterLocked(held *fencelock.Lease) {
	if held != nil {
		b.unlocks.n++
		go func() { _ = b.unlockCounted(context.Background(), held) }()
	}
}

// unlockCounted unlocks. The client of the store repeats what is not confirmed.
func (b *Book) unlockCounted(ctx context.Context, held *fencelock.Lease) error {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unlocks.doneLocked()
	}()
	return held.Unlock(ctx)
}

// Unlocked waits until the store has answered every unlock, or ctx ends, and returns how many it has not answered. A process that
// ends before leaves these locks taken until the session of its server ends.
func (b *Book) Unlocked(ctx context.Context) (left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.unlocks.n > 0 && ctx.Err() == nil {
		if b.unlocks.none == nil {
			b.unlocks.none = make(chan struct{})
		}
		none := b.unlocks.none
		b.mu.Unlock()
		select {
		case <-none:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
	return b.unlocks.n
}
