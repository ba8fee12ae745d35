// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"time"
)

// Sweep removes all that can be removed, without waiting for it to be old.
func Sweep(ctx context.Context, s *Store) error {
	if err := s.sweepSessions(ctx); err != nil {
		return err
	}
	cursor := ""
	_, _, err := s.sweepLocks(ctx, &cursor, 0)
	return err
}

// RetryListening makes a store that heard nothing try again soon.
func RetryListening(s *Store, after time.Duration) { s.hub.retry = after }

// BuryTooEarly reads a lock, and buries its sessions as if the clock had been ahead by so
// much when it was read, and was set back then. It says whether what was read may be used.
func BuryTooEarly(ctx context.Context, s *Store, name string, ahead time.Duration) (bool, error) {
	l, err := s.loadShort(ctx, "", name)
	if err != nil {
		return false, err
	}
	l.Now += ahead.Microseconds()
	return s.bury(ctx, l.Book)
}
