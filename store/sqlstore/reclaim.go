// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
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
			ss.note(&h.Claim)
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
	n, err := ss.store.changed(ctx, "reclaimedAll", ss.sid, ss.generation, ss.inc)
	if err == nil && n == 0 { // MySQL counts changed rows: it may have been noted before
		err = ss.lives(ctx)
	}
	return kept, err
}

// lives returns an error unless the session may go on.
func (ss *session) lives(ctx context.Context) error {
	l, err := ss.store.loadShort(ctx, ss.sid, "")
	if err != nil {
		return err
	}
	return ss.verdict(l)
}

// reclaim asks for one grant.
func (ss *session) reclaim(ctx context.Context, h *driver.Held) (kept bool, err error) {
	claim, err := lockrow.NewClaim(ss.sid, ss.generation, &h.Claim)
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
//
// A grant is confirmed by its claim and its token, not by its name alone: the session may
// have unlocked the name and locked it again after the data that this server has. No
// process will ever give back the grant that survived then.
//
// Only claims that are plain now are confirmed here: the row of one that was downgraded
// since is still exclusive, and must become shared. A watched one is confirmed if its row has
// the watch: the row may be older.
func (ss *session) confirm(ctx context.Context, held []driver.Held) (map[uint64]driver.Token, error) {
	s := ss.store
	held = slices.DeleteFunc(slices.Clone(held), func(h driver.Held) bool { return !h.Claim.Terms.Plain() })
	if len(held) == 0 {
		return nil, nil
	}
	args := []any{ss.inc, ss.sid, ss.generation}
	var grants []string
	// In the order of names: two sessions that confirm cannot deadlock.
	slices.SortFunc(held, func(a, b driver.Held) int { return strings.Compare(a.Claim.Name, b.Claim.Name) })
	for _, h := range held {
		p := s.dialect.parameters(len(args)+1, 3)
		grant := fmt.Sprintf("name = %s AND seq = %s AND counter = %s", p[0], p[1], p[2])
		if h.Claim.Watch {
			grant += " AND record LIKE '" + lockrow.WatchKey + "%'"
		}
		grants = append(grants, grant)
		args = append(args, s.name(h.Claim.Name), int64(h.Claim.Seq), int64(h.Token.Base())/driver.TokenStep)
	}
	p := s.dialect.parameters(1, 3)
	where := fmt.Sprintf("holder = %s AND generation = %s AND (%s)", p[1], p[2], strings.Join(grants, " OR "))
	text := "/* fencelock confirm */ UPDATE " + s.opts.prefix() + "lock SET version = GREATEST(version + 1, " + clocks[s.dialect] + "), inc = " + p[0] + " WHERE " + where
	err := s.run(ctx, "reclaim", func() error {
		_, err := s.db.ExecContext(ctx, text, s.args(args)...)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := map[uint64]driver.Token{}
	text = "/* fencelock confirm */ SELECT seq, counter FROM " + s.opts.prefix() + "lock WHERE inc = " + p[0] + " AND " + where + allRows
	err = s.rows(ctx, "reclaim", text, args, func() { clear(found) }, func(r *sql.Rows) error {
		var seq, counter int64
		err := r.Scan(&seq, &counter)
		found[uint64(seq)] = driver.Token(counter * driver.TokenStep)
		return err
	})
	return found, err
}
