// SPDX-License-Identifier: Apache-2.0

package sqlstore

import "context"

// Sweep removes all that can be removed, without waiting for it to be old.
func Sweep(ctx context.Context, s *Store) error {
	if err := s.sweepSessions(ctx); err != nil {
		return err
	}
	cursor := ""
	_, _, err := s.sweepLocks(ctx, &cursor, 0)
	return err
}
