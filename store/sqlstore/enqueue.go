// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/book"
)

// bell is the bell of a claim of the session.
func (ss *session) bell(seq uint64) bell { return bell{ss.sid, seq} }

// enqueue queues a plain claim behind a plain holder, in one statement, and finds out where
// it stands; false if the lock is of another kind. If the connection that has the bells is
// idle, the statement is sent there, and the claim gets a bell and waits for that of the
// claim before it. Otherwise it listens or polls.
func (ss *session) enqueue(ctx context.Context, c *book.Claim, name string, w *waiting) (driver.Outcome, bool, error) {
	s := ss.store
	c.Inc = ss.inc
	own := ss.bell(c.Seq)
	if k := s.bells.borrow(ctx); k != nil {
		c.Listens = 0
		var p *placed
		err := s.run(ctx, "enqueue", func() (err error) {
			p, err = ss.queueUp(ctx, k, c, name)
			return err
		})
		took := &own
		if p == nil || !p.rings {
			took = nil
		}
		s.bells.keep(k, err, took, nil)
		if !errors.Is(err, driver.ErrUnavailable) {
			return ss.standing(ctx, c, name, w, p, err)
		}
	}
	c.Listens = ss.listens(w)
	p, err := ss.queueUp(ctx, nil, c, name)
	return ss.standing(ctx, c, name, w, p, err)
}

// placed is a claim that was queued.
type placed struct {
	*book.Book             // the holder; nil if it was not read
	position   int         // in the queue
	before     *book.Claim // the claim before it
	rings      bool        // it has a bell
}

// queueUp sends the statement, on the connection of the owner if there is one. It returns
// nil if the claim was not queued.
func (ss *session) queueUp(ctx context.Context, k *owner, c *book.Claim, name string) (*placed, error) {
	s := ss.store
	entry, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	probe := probe(c.Session, c.Seq)
	if s.dialect == PostgreSQL {
		return ss.queueUpPostgres(ctx, k, []any{name, ss.sid, int64(c.Seq), ss.generation, ss.inc, string(entry), "[" + probe + "]"}, c.Seq)
	}
	args := []any{string(entry), s.name(name), ss.sid, int64(c.Seq), probe, probe, ss.sid, ss.generation, ss.inc, ss.inc, ss.inc}
	var n int64
	if k != nil {
		n, err = k.conn.changed(ctx, s, "enqueueBell", append([]any{ss.bell(c.Seq).name()}, args...)...)
	} else {
		n, err = s.changed(ctx, "enqueue", args...)
	}
	if err != nil || n == 0 {
		return nil, err
	}
	return &placed{rings: k != nil}, nil
}

func (ss *session) queueUpPostgres(ctx context.Context, k *owner, args []any, seq uint64) (*placed, error) {
	var now, graceEnd int64
	var ends sql.NullInt64
	g := book.Claim{Plain: 1}
	var before struct {
		session sql.NullString
		seq     sql.NullInt64
		plain   sql.NullInt64
	}
	p := &placed{}
	to := []any{&now, &graceEnd, &ends, &g.Counter, &g.Session, &g.Seq, &g.Generation, &g.Inc, &g.Since, &g.Record,
		&p.position, &before.session, &before.seq, &before.plain}
	var err error
	if k != nil {
		err = k.conn.row(ctx, ss.store, "enqueueBell", append(args, ss.bell(seq).key()), append(to, &p.rings))
	} else {
		err = ss.store.row(ctx, "enqueue", args, to)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.Book = &book.Book{Lock: &book.Lock{Counter: g.Counter, Grants: []book.Claim{g}}, Now: now, Inc: ss.inc, GraceEnd: graceEnd,
		Sessions: map[string]book.Session{g.Session: {Generation: g.Generation, Ends: ends.Int64}}}
	p.before = &g
	if before.session.Valid {
		p.before = &book.Claim{Session: before.session.String, Seq: uint64(before.seq.Int64), Plain: int(before.plain.Int64)}
	}
	return p, nil
}

// standing returns where a claim stands that was queued, and lets it wait for the bell of the
// claim before it. It reports false if it was not queued, or if there is something to decide.
func (ss *session) standing(ctx context.Context, c *book.Claim, name string, w *waiting, p *placed, err error) (driver.Outcome, bool, error) {
	if err != nil || p == nil {
		return driver.Outcome{}, false, err
	}
	s := ss.store
	s.bells.heat(name)
	var out driver.Outcome
	if p.Book != nil {
		out = p.QueuedAt(p.position)
	} else {
		l, err := s.loadShort(ctx, ss.sid, name)
		if err != nil {
			return driver.Outcome{}, false, err
		}
		var ok bool
		if out, ok = l.Waiting(c.Session, c.Seq); !ok {
			return out, false, nil
		}
		before, position, known := l.Before(c.Session, c.Seq)
		p.Book, p.position = l.Book, position
		if known {
			p.before = &before
		}
	}
	ss.queued(w, out.Position, p.Counter)
	if p.rings && p.before != nil && p.before.Plain == 1 && p.before.Session != "" {
		s.bells.follow(ss, name, w, ss.bell(c.Seq), bell{p.before.Session, p.before.Seq}, p.position, p.Counter)
	}
	return out, true, nil
}

// probe is what the entry of a claim contains, in the queue and among the marks.
func probe(session string, seq uint64) string { return fmt.Sprintf(`{"s": %q, "n": %d}`, session, seq) }
