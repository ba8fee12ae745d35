// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/sqlstore/internal/book"
)

// memory is the row that says which life of which server this is.
type memory struct {
	now, inc        int64
	same            int // 1 if this server is the one it belongs to
	graceEnd, floor int64
	settings        string
}

func (m *memory) fields() []any {
	return []any{&m.now, &m.inc, &m.same, &m.graceEnd, &m.floor, &m.settings}
}

// memory returns the present memory. If the tables are new, or another server has
// them, it begins a new incarnation.
func (s *Store) memory(ctx context.Context) (memory, error) {
	for {
		var m memory
		err := s.row(ctx, "memory", nil, m.fields())
		switch {
		case errors.Is(err, sql.ErrNoRows):
			_, err = s.changed(ctx, "createMemory", s.opts.graceFor(), s.opts.settings())
		case err == nil && m.settings != s.opts.settings():
			return m, fmt.Errorf("sqlstore: the tables %s* were made for %q, and these Options say %q; use the same in all processes: %w",
				s.opts.Prefix, m.settings, s.opts.settings(), driver.ErrRefused)
		case err == nil && m.same == 1:
			return m, nil
		case err == nil:
			_, err = s.changed(ctx, "renewMemory", s.opts.graceFor(), m.inc)
		}
		if err != nil {
			return m, err
		}
	}
}

// loaded is a lock as it was read.
type loaded struct {
	*book.Book
	exists  bool
	version int64
	mine    *mySession      // nil: it has no row
	known   map[string]bool // sessions that were read with it
}

// mySession is the row of the session that asks.
type mySession struct {
	epoch, ends, inc, done int64
	broken                 string
}

// rowFields are the columns of a lock in the order of the statements.
type rowFields struct {
	version, counter, lim, reclaimed, seq, epoch, inc, since sql.NullInt64
	holder, record, grants, line, marks                      sql.NullString
}

func (f *rowFields) fields() []any {
	return []any{&f.version, &f.counter, &f.lim, &f.reclaimed, &f.holder, &f.seq, &f.epoch, &f.inc, &f.since,
		&f.record, &f.grants, &f.line, &f.marks}
}

func (f *rowFields) row() *book.Row {
	return &book.Row{Version: f.version.Int64, Counter: f.counter.Int64, Limit: f.lim.Int64, Reclaimed: f.reclaimed.Int64,
		Holder: f.holder.String, Seq: f.seq.Int64, Epoch: f.epoch.Int64, Inc: f.inc.Int64, Since: f.since.Int64,
		Record: f.record.String, Grants: f.grants.String, Line: f.line.String, Marks: f.marks.String}
}

// load reads a lock, the sessions it names, and the session that asks (or "").
func (s *Store) load(ctx context.Context, session, name string) (*loaded, error) {
	l, err := s.loadShort(ctx, session, name)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(l.Lock.Sessions(), func(id string) bool { return l.known[id] })
	if err := s.sessions(ctx, others, l.Sessions); err != nil {
		return nil, err
	}
	return l, s.bury(ctx, l.Book)
}

// loadShort reads a lock, its plain holder's session and the one that asks.
func (s *Store) loadShort(ctx context.Context, session, name string) (*loaded, error) {
	var m memory
	var f rowFields
	var mine, held struct{ epoch, ends, inc, done sql.NullInt64 }
	var broken sql.NullString
	to := append(m.fields(), &mine.epoch, &mine.ends, &mine.inc, &mine.done, &broken, &held.epoch, &held.ends, &held.done)
	err := s.row(ctx, "load", []any{session, s.name(name)}, append(to, f.fields()...))
	if errors.Is(err, sql.ErrNoRows) || err == nil && m.same != 1 {
		// Another server, or the tables were emptied. Whoever asked with a session
		// learns it from the incarnation.
		if _, err := s.memory(ctx); err != nil {
			return nil, err
		}
		return s.loadShort(ctx, session, name)
	}
	if err != nil {
		return nil, err
	}
	lock, err := book.Decode(f.row())
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %q: %w", name, err)
	}
	l := &loaded{exists: f.version.Valid, version: f.version.Int64, Book: &book.Book{
		Lock: lock, Now: m.now, Inc: m.inc, GraceEnd: m.graceEnd, Floor: m.floor, Sessions: map[string]book.Session{},
	}}
	if mine.epoch.Valid {
		l.mine = &mySession{mine.epoch.Int64, mine.ends.Int64, mine.inc.Int64, mine.done.Int64, broken.String}
		l.Sessions[session] = book.Session{Epoch: mine.epoch.Int64, Ends: mine.ends.Int64, Done: mine.done.Int64}
	}
	if held.epoch.Valid {
		l.Sessions[f.holder.String] = book.Session{Epoch: held.epoch.Int64, Ends: held.ends.Int64, Done: held.done.Int64}
	}
	l.known = map[string]bool{session: true, f.holder.String: true}
	return l, nil
}

// manyAtOnce bounds the parameters of one statement.
const manyAtOnce = 200

// sessions reads the rows of sessions. They are read after the lock, which does no
// harm: one that has ended never lives again with the same epoch.
func (s *Store) sessions(ctx context.Context, ids []string, into map[string]book.Session) error {
	for part := range slices.Chunk(ids, manyAtOnce) {
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		text := "/* fencelock sessions */ SELECT id, epoch, ends, done FROM " + s.opts.Prefix + "session WHERE id IN (" + s.dialect.list(1, len(part)) + ")"
		err := s.rows(ctx, "sessions", text, args, func() {}, func(r *sql.Rows) error {
			var id string
			var v book.Session
			if err := r.Scan(&id, &v.Epoch, &v.Ends, &v.Done); err != nil {
				return err
			}
			into[id] = v
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bury ends for good the sessions of a book whose time has come, before anybody takes
// what they had.
func (s *Store) bury(ctx context.Context, b *book.Book) error {
	for _, id := range b.Ended() {
		n, err := s.changed(ctx, "endSession", id, b.Sessions[id].Epoch)
		if err != nil {
			return err
		}
		delete(b.Sessions, id)
		if n == 0 { // it was removed already, or kept alive at the last moment
			if err := s.sessions(ctx, []string{id}, b.Sessions); err != nil {
				return err
			}
		}
	}
	return nil
}

// name is a lock's name as a parameter.
func (s *Store) name(name string) any {
	if s.dialect == MySQL {
		return []byte(name) // the column has bytes: no collation makes two names one
	}
	return name
}
