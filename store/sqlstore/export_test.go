// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/jackc/pgx/v5/stdlib"
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

// BehindPooler reports what the hub of a store that hears nothing would find out about a
// connection.
func BehindPooler(ctx context.Context, s *Store) (found bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		found = s.hub.behindPooler(c.(*stdlib.Conn).Conn().PgConn())
		return nil
	})
	return found, err
}

// EndSessionsTooEarly reads a lock, and ends its sessions as if the clock had been ahead by so
// much when it was read, and was set back then. It reports whether what was read may be used.
func EndSessionsTooEarly(ctx context.Context, s *Store, name string, ahead time.Duration) (bool, error) {
	l, err := s.loadShort(ctx, "", name)
	if err != nil {
		return false, err
	}
	l.Now += ahead.Microseconds()
	return s.endSessions(ctx, l.Book)
}

// BellKey and BellName are the named lock of a claim.
func BellKey(id driver.SessionID, seq uint64) int64   { return bell{id.String(), seq}.key() }
func BellName(id driver.SessionID, seq uint64) string { return bell{id.String(), seq}.name() }

// LoseBells breaks the connection that has the bells of a session.
func LoseBells(ctx context.Context, s driver.Session) {
	b := &s.(*session).store.bells
	if k := b.borrow(ctx); k != nil {
		b.keep(k, errShared, nil, nil)
	}
}
