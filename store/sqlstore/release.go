// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// Withdraw implements driver.Session. Giving a plain grant back, and granting to a plain
// claim that is first in the queue, is one statement; so is taking a queued claim back.
func (ss *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	found, err := ss.withdraw(ctx, w)
	if err == nil {
		ss.drop(w.Seq)
		ss.store.sweeper.count()
	}
	return found, err
}

func (ss *session) withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if ss.wasQueued(w.Seq) && ss.store.check(w.Name) == nil {
		left, err := ss.leave(ctx, w)
		if err != nil {
			return driver.WasAbsent, err
		}
		if left {
			return driver.WasQueued, nil
		}
	}
	if !w.Tombstone && w.KeepFor == 0 && ss.store.check(w.Name) == nil {
		done, err := ss.release(ctx, w)
		if err != nil {
			return driver.WasAbsent, err
		}
		if done {
			return driver.WasGranted, nil
		}
	}
	found := driver.WasAbsent
	err := ss.store.change(ctx, w.Name, ss, func(l *loaded) error {
		found = l.Withdraw(ss.sid, ss.generation, w)
		return nil
	})
	return found, err
}

// wasQueued reports whether a claim was seen in the queue, and its grant was not.
func (ss *session) wasQueued(seq uint64) bool {
	ss.mu.Lock()
	w := ss.waits[seq]
	ss.mu.Unlock()
	return w.seenQueued(ss)
}

// leave takes a queued claim back in one statement; false if there may be something to decide.
func (ss *session) leave(ctx context.Context, w driver.Withdrawal) (bool, error) {
	s := ss.store
	var tombstone sql.NullString
	if w.Tombstone {
		text, err := json.Marshal([]lockrow.Mark{{Session: ss.sid, Seq: w.Seq, Generation: ss.generation, Kind: lockrow.Tombstoned}})
		if err != nil {
			return false, err
		}
		tombstone = sql.NullString{String: string(text), Valid: true}
	}
	probe := probe(ss.sid, w.Seq)
	args := []any{w.Name, ss.sid, ss.generation, ss.inc, tombstone, probe}
	if s.dialect == MySQL {
		args = []any{tombstone, tombstone, ss.sid, s.name(w.Name), ss.sid, int64(w.Seq), ss.sid, probe, ss.sid, ss.generation, ss.inc}
	}
	n, err := s.changed(ctx, "leave", args...)
	return n > 0, err
}

// probe is what the entry of a claim contains, in the queue and among the marks.
func probe(session string, seq uint64) string { return fmt.Sprintf(`{"s": %q, "n": %d}`, session, seq) }

// longQueue is behind how many others a claim of this process was queued last if the release of the lock
// is that for long queues. Either statement is right for any queue.
const longQueue = 8

// release is the fast path; false if the lock is not of the plain kind.
func (ss *session) release(ctx context.Context, w driver.Withdrawal) (bool, error) {
	s := ss.store
	known, _ := s.recent.of(w.Name)
	if !known.contended() && (s.dialect == MySQL || ss.released.room(w.Name)) { // most likely nobody waits
		if done, err := ss.unlock(ctx, w); done || err != nil {
			return done, err
		}
	}
	if s.dialect == MySQL {
		statement := "release"
		if known.place >= longQueue {
			statement = "releaseLong"
		}
		n, err := s.changed(ctx, statement, s.name(w.Name), ss.sid, int64(w.Seq), ss.sid, ss.generation, ss.inc, ss.inc)
		return n > 0, err
	}
	var notified sql.NullString
	err := s.row(ctx, "release", []any{w.Name, ss.sid, int64(w.Seq), ss.generation, ss.inc, *ss.server.Load()}, []any{&notified})
	return err == nil, unlessNone(err)
}

// unlock gives back a plain grant that no claim waits for; false if there is none. On PostgreSQL it is remembered
// whatever the answer is: if that was lost, a repeated withdrawal finds nothing to do, and a crash can still undo the first.
func (ss *session) unlock(ctx context.Context, w driver.Withdrawal) (bool, error) {
	n, err := ss.store.changed(ctx, "unlock", ss.store.name(w.Name), ss.sid, int64(w.Seq), ss.generation, ss.inc, *ss.server.Load())
	if ss.store.dialect == PostgreSQL && ss.released.add(w) {
		ss.settleSoon()
	}
	return n > 0, err
}

// Close implements driver.Session: it ends the session in one statement, and then frees
// what it had, so that waiters need not find out by polling.
func (ss *session) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: close: %w", err)
	}
	// Before the statement: when it fails, the session is over for this process anyway.
	_ = ss.over(driver.ErrGone)
	ss.store.listener.leave(ss)
	names, err := ss.end(ctx)
	if err != nil {
		return err
	}
	ss.mu.Lock()
	for _, name := range ss.claims {
		names = append(names, name)
	}
	clear(ss.claims)
	ss.mu.Unlock()
	slices.Sort(names)
	return ss.vacate(ctx, slices.Compact(names))
}

// vacate frees locks whose session is gone. Those without waiters are freed many at
// once, the others one by one, because each is granted to a waiter.
func (ss *session) vacate(ctx context.Context, names []string) error {
	s := ss.store
	for part := range slices.Chunk(names, manyAtOnce) {
		args := []any{ss.sid}
		for _, name := range part {
			args = append(args, s.name(name))
		}
		where, first := "holder = ?", 1
		if s.dialect == PostgreSQL {
			where, first = "holder = $1", 2
		}
		where += " AND name IN (" + s.dialect.list(first, len(part)) + ")"
		free := "/* fencelock vacate */ UPDATE " + s.opts.prefix() + "lock SET version = GREATEST(version + 1, " + clocks[s.dialect] + "), holder = NULL, seq = NULL, generation = NULL, inc = NULL, since = NULL, record = NULL WHERE " + where + " AND queue IS NULL"
		err := s.run(ctx, "close", func() error {
			_, err := s.db.ExecContext(ctx, free, s.args(args)...)
			return err
		})
		if err != nil {
			return err
		}
		var left []string
		rest := "/* fencelock vacate */ SELECT name FROM " + s.opts.prefix() + "lock WHERE (grants IS NOT NULL OR queue IS NOT NULL OR marks IS NOT NULL) AND name IN (" + s.dialect.list(1, len(part)) + ") ORDER BY name" + allRows
		err = s.rows(ctx, "close", rest, args[1:], func() { left = nil }, func(r *sql.Rows) error {
			var name []byte
			err := r.Scan(&name)
			left = append(left, string(name))
			return err
		})
		if err != nil {
			return err
		}
		for _, name := range left {
			if _, err := s.Inspect(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}
