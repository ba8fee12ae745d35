// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// short tries the statements for plain claims; false if the lock is of another kind. A lock
// that was contended a moment ago is most likely held: the claim is queued first then. One that this process has
// used most likely has its row.
func (ss *session) short(ctx context.Context, c *driver.Claim, claim *lockrow.Claim, w *waiting) (driver.Outcome, bool, error) {
	known, used := ss.store.recent.of(c.Name)
	var ways []way
	switch {
	case !used:
		ways = []way{(*session).takeOrMake, nil}
	case known.contended():
		ways = []way{nil, (*session).take, (*session).takeOrMake}
	default:
		ways = []way{(*session).take, nil, (*session).takeOrMake}
	}
	for _, take := range ways {
		if take == nil && w != nil {
			out, done, err := ss.enqueue(ctx, claim, c.Name, w)
			if done || err != nil || w.seenQueued(ss) {
				return out, done, err
			}
		}
		if take == nil {
			continue
		}
		counter, err := take(ss, ctx, claim, c.Name)
		if err != nil {
			return driver.Outcome{}, false, err
		}
		if counter > 0 {
			ss.stopWaiting(c.Seq)
			ss.store.recent.free(c.Name)
			return driver.Outcome{State: driver.Granted, Token: driver.Token(counter * driver.TokenStep)}, true, nil
		}
	}
	return driver.Outcome{}, false, nil
}

// way is how a claim is granted a free lock, nil to queue it instead.
type way func(*session, context.Context, *lockrow.Claim, string) (counter int64, err error)

// enqueue queues a plain claim behind a plain holder, in one statement, and finds out where
// it stands; false if the lock is of another kind. On MySQL it gets a handoff lock, if it can.
func (ss *session) enqueue(ctx context.Context, c *lockrow.Claim, name string, w *waiting) (driver.Outcome, bool, error) {
	c.Inc = ss.inc
	if lockrow.HandoffLockOf(c.Record) == 0 {
		c.Record = lockrow.WithHandoffLock(c.Record, ss.handoffLock(ctx, c.Seq))
	}
	entry, err := json.Marshal(c)
	if err != nil {
		return driver.Outcome{}, false, err
	}
	var out driver.Outcome
	var b *lockrow.State
	if ss.store.dialect == MySQL {
		out, b, err = ss.enqueueMySQL(ctx, c, name, string(entry), w)
	} else {
		out, b, err = ss.enqueuePostgres(ctx, c, name, string(entry))
	}
	if err != nil || b == nil {
		return driver.Outcome{}, false, err
	}
	ss.store.recent.queued(name, out.Position)
	var known recentLock
	if ss.store.listens() { // polls that are planned by an old pace are late, and make it slower
		known, _ = ss.store.recent.of(name)
	}
	ss.queued(w, out.Position, b.Counter, known.pace)
	return out, true, nil
}

// enqueuePostgres returns where a claim stands that was queued, and the lock without its
// queue; nil if it was not.
func (ss *session) enqueuePostgres(ctx context.Context, c *lockrow.Claim, name, entry string) (driver.Outcome, *lockrow.State, error) {
	var now, graceEnd int64
	var ends sql.NullInt64
	var position int
	var notified sql.NullString
	g := lockrow.Claim{Plain: 1}
	err := ss.store.row(ctx, "enqueue", []any{name, ss.sid, int64(c.Seq), ss.generation, ss.inc, entry, "[" + probe(c.Session, c.Seq) + "]", *ss.server.Load()},
		[]any{&now, &graceEnd, &ends, &g.Counter, &g.Session, &g.Seq, &g.Generation, &g.Inc, &g.Since, &g.Record, &position, &notified})
	if errors.Is(err, sql.ErrNoRows) {
		return driver.Outcome{}, nil, nil
	}
	if err != nil {
		return driver.Outcome{}, nil, err
	}
	b := &lockrow.State{Lock: &lockrow.Lock{Counter: g.Counter, Grants: []lockrow.Claim{g}}, Now: now, Inc: ss.inc, GraceEnd: graceEnd,
		Sessions: map[string]lockrow.Session{g.Session: {Generation: g.Generation, Ends: ends.Int64}}}
	return b.QueuedAt(position), b, nil
}

// enqueueMySQL reads where the claim stands by a second statement: an UPDATE returns no rows. In a queue that moves
// quickly the number is enough that comes back with the first. The claim counts as queued even if the second statement fails.
func (ss *session) enqueueMySQL(ctx context.Context, c *lockrow.Claim, name, entry string, w *waiting) (driver.Outcome, *lockrow.State, error) {
	s, probe := ss.store, probe(c.Session, c.Seq)
	res, err := s.exec(ctx, "enqueue", entry, s.name(name), ss.sid, int64(c.Seq), ss.sid, probe, probe, ss.sid, ss.generation, ss.inc, ss.inc, ss.inc)
	if err != nil {
		return driver.Outcome{}, nil, err
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 {
		return driver.Outcome{}, nil, err
	}
	ss.queued(w, 0, 0, 0)
	number, err := res.LastInsertId()
	if err != nil {
		return driver.Outcome{}, nil, err
	}
	if holders, moves := s.recent.holders(name); moves && number >= 1024 && lockrow.HandoffLockOf(c.Record) != 0 {
		ss.noteBefore(w, slices.Values([]int64{number / 1024}))
		return driver.Outcome{State: driver.Queued, Position: int(number % 1024), Holders: holders, PollAfter: ss.ttl}, &lockrow.State{Lock: &lockrow.Lock{}}, nil
	}
	l, err := s.loadShort(ctx, ss.sid, name)
	if err != nil {
		return driver.Outcome{}, nil, err
	}
	out, ok := l.Waiting(c.Session, c.Seq)
	if !ok {
		return out, nil, nil
	}
	s.recent.heldBy(name, out.Holders)
	ss.noteBefore(w, l.HandoffLocksBefore(c.Session, c.Seq))
	return out, l.State, nil
}
