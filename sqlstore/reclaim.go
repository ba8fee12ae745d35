// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/sqlstore/internal/book"
)

// Reclaim implements driver.Session. Plain grants that survived, which are nearly all
// when a replica takes over, are confirmed many at a time, the others one by one.
func (ss *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	if err := ss.lives(ctx); err != nil {
		return nil, err
	}
	var kept []bool
	for part := range slices.Chunk(held, manyAtOnce) {
		survived, err := ss.confirm(ctx, part)
		if err != nil {
			return nil, err
		}
		for _, h := range part {
			ss.note(h.Claim.Seq, h.Claim.Name)
			yes := survived[h.Claim.Seq] == h.Token.Base() && h.Token != 0
			if !yes {
				if yes, err = ss.reclaim(ctx, &h); err != nil {
					return nil, err
				}
			}
			kept = append(kept, yes)
		}
	}
	if !last {
		return kept, nil
	}
	n, err := ss.store.changed(ctx, "reclaimedAll", ss.sid, ss.epoch, ss.inc)
	if err == nil && n == 0 { // MySQL counts changed rows: it may have been said before
		err = ss.lives(ctx)
	}
	return kept, err
}

// lives asks whether the session may go on.
func (ss *session) lives(ctx context.Context) error {
	l, err := ss.store.loadShort(ctx, ss.sid, "")
	if err != nil {
		return err
	}
	return ss.verdict(l)
}

// reclaim asks for one grant.
func (ss *session) reclaim(ctx context.Context, h *driver.Held) (kept bool, err error) {
	claim, err := book.NewClaim(ss.sid, ss.epoch, &h.Claim)
	if err != nil {
		return false, fmt.Errorf("sqlstore: %q: %w", h.Claim.Name, err)
	}
	err = ss.store.change(ctx, h.Claim.Name, ss, func(l *loaded) error {
		kept = l.Reclaim(claim, h.Token)
		return nil
	})
	return kept, err
}

// confirm makes the plain grants of this session that survived known in this
// incarnation, and returns their tokens by number.
func (ss *session) confirm(ctx context.Context, held []driver.Held) (map[uint64]driver.Token, error) {
	s := ss.store
	args := []any{ss.inc, ss.sid, ss.epoch}
	for _, h := range held {
		args = append(args, s.name(h.Claim.Name))
	}
	set, where := "inc = ?", "holder = ? AND epoch = ? AND name IN ("+s.dialect.list(0, len(held))+")"
	if s.dialect == PostgreSQL {
		set, where = "inc = $1", "holder = $2 AND epoch = $3 AND name IN ("+s.dialect.list(4, len(held))+")"
	}
	text := "/* fencelock confirm */ UPDATE " + s.opts.Prefix + "lock SET version = version + 1, " + set + " WHERE " + where
	err := s.run(ctx, "reclaim", func() error {
		_, err := s.db.ExecContext(ctx, text, s.args(args)...)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := map[uint64]driver.Token{}
	where = "inc = " + s.dialect.list(1, 1) + " AND " + where
	text = "/* fencelock confirm */ SELECT seq, counter FROM " + s.opts.Prefix + "lock WHERE " + where
	err = s.rows(ctx, "reclaim", text, args, func() { clear(found) }, func(r *sql.Rows) error {
		var seq, counter int64
		err := r.Scan(&seq, &counter)
		found[uint64(seq)] = driver.Token(counter * driver.TokenStep)
		return err
	})
	return found, err
}
