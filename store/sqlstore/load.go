// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// incarnation is the row of the server that keeps the tables, and of its incarnation.
type incarnation struct {
	now, inc        int64
	same            int // thisServer, another number if the tables are of another one, or unsaid
	graceEnd, floor int64
	layout          string
	rules           rules
	server          sql.NullString // {server}; null on a connection that has no identity
}

func (m *incarnation) fields() []any {
	return []any{&m.now, &m.inc, &m.same, &m.graceEnd, &m.floor, &m.layout, &m.rules.grace, &m.rules.maxTTL, &m.server}
}

const (
	thisServer = 1
	// unsaid: the connection has no identity, because nothing that it writes is committed.
	unsaid = -1
)

// errAutocommit is for a connection whose statements are not committed: a grant would go with the
// connection, and the next holder would get the same token. Another connection of the handle may
// be well, so this ends no session; a new one is refused.
var errAutocommit = errors.New("sqlstore: autocommit is off on a connection to the database, so nothing that the store writes there is committed; " +
	"add autocommit=1 to the data source name")

// maxRounds is how often a new incarnation is begun unsuccessfully. A round fails only if
// the tables change hands in between, so it is far more than a failover needs.
const maxRounds = 50

// errSplit is returned when what is written is not what is read.
var errSplit = fmt.Errorf("sqlstore: a new incarnation was written %d times and is not there when it is read: "+
	"reads and writes reach different servers, as behind a proxy that splits them; connect to the primary alone: %w", maxRounds, driver.ErrUnavailable)

// incarnation returns the present incarnation. If another server has the tables it begins a new
// incarnation. setUp is for sessions: if the tables are new, it begins the first one. Readers
// set up nothing: errVacant is returned then.
func (s *Store) incarnation(ctx context.Context, setUp bool) (incarnation, error) {
	for range maxRounds {
		var m incarnation
		err := s.row(ctx, "incarnation", nil, m.fields())
		if errors.Is(err, sql.ErrNoRows) && !setUp {
			return m, errVacant
		}
		switch {
		case errors.Is(err, sql.ErrNoRows):
			err = s.beginFirst(ctx)
		case err != nil:
		case m.layout != layout:
			err = otherVersion(s.opts.prefix(), m.layout)
		case m.same == unsaid:
			err = fmt.Errorf("%w: %w", errAutocommit, driver.ErrUnavailable)
		case m.same != thisServer:
			err = s.beginNext(ctx, &m)
		default:
			s.memory.learn(m.inc, m.rules)
			return m, nil
		}
		if err != nil {
			return m, err
		}
	}
	return incarnation{}, errSplit
}

// loaded is a lock as it was read.
type loaded struct {
	*lockrow.State
	exists  bool
	version int64
	mine    *mySession      // nil: it has no row
	known   map[string]bool // sessions that were read with it
	rules   rules           // of the table
	server  string          // {server}, which has the identity of the incarnation
}

// mySession is the row of the session that asks.
type mySession struct {
	generation, ends, inc, done int64
	broken                      string
}

// rowFields are the columns of a lock in the order of the statements.
type rowFields struct {
	version, counter, lim, reclaimed, seq, generation, inc, since sql.NullInt64
	holder, record, grants, queue, marks                          sql.NullString
}

func (f *rowFields) fields() []any {
	return []any{&f.version, &f.counter, &f.lim, &f.reclaimed, &f.holder, &f.seq, &f.generation, &f.inc, &f.since,
		&f.record, &f.grants, &f.queue, &f.marks}
}

func (f *rowFields) row() *lockrow.Row {
	return &lockrow.Row{Version: f.version.Int64, Counter: f.counter.Int64, Limit: f.lim.Int64, Reclaimed: f.reclaimed.Int64,
		Holder: f.holder.String, Seq: f.seq.Int64, Generation: f.generation.Int64, Inc: f.inc.Int64, Since: f.since.Int64,
		Record: f.record.String, Grants: f.grants.String, Queue: f.queue.String, Marks: f.marks.String}
}

// load reads a lock, the sessions it names, and the session that asks (or "").
func (s *Store) load(ctx context.Context, session, name string) (*loaded, error) {
	for {
		l, err := s.loadShort(ctx, session, name)
		if err != nil {
			return nil, err
		}
		others := slices.DeleteFunc(l.Lock.Sessions(), func(id string) bool { return l.known[id] })
		if err := s.sessions(ctx, others, l.Sessions); err != nil {
			return nil, err
		}
		if again, err := s.correct(ctx, l); err != nil {
			return nil, err
		} else if again {
			continue
		}
		if sure, err := s.endSessions(ctx, l.State); err != nil || sure {
			return l, err
		}
	}
}

// loadShort reads a lock, its plain holder's session and the one that asks.
func (s *Store) loadShort(ctx context.Context, session, name string) (*loaded, error) {
	for range maxRounds {
		l, err := s.loadOnce(ctx, session, name)
		if err != nil || l != nil {
			return l, err
		}
		// Another server, or the tables were emptied. A call with a session
		// learns it from the incarnation.
		if _, err := s.incarnation(ctx, session != ""); err != nil {
			return nil, err
		}
	}
	return nil, errSplit
}

// loadOnce returns nil if the incarnation is not this server's.
func (s *Store) loadOnce(ctx context.Context, session, name string) (*loaded, error) {
	var m incarnation
	var f rowFields
	var mine, held struct{ generation, ends, inc, done sql.NullInt64 }
	var broken sql.NullString
	to := append(m.fields(), &mine.generation, &mine.ends, &mine.inc, &mine.done, &broken, &held.generation, &held.ends, &held.done)
	err := s.row(ctx, "load", []any{session, s.name(name)}, append(to, f.fields()...))
	if err == nil && m.same == unsaid {
		return nil, fmt.Errorf("%w: %w", errAutocommit, driver.ErrUnavailable)
	}
	if errors.Is(err, sql.ErrNoRows) || err == nil && m.same != thisServer {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m.layout != layout {
		return nil, otherVersion(s.opts.prefix(), m.layout)
	}
	s.memory.learn(m.inc, m.rules)
	lock, err := lockrow.Decode(f.row())
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %q: %w", name, err)
	}
	l := &loaded{rules: m.rules, server: m.server.String, exists: f.version.Valid, version: f.version.Int64, State: &lockrow.State{
		Lock: lock, Now: m.now, Inc: m.inc, GraceEnd: m.graceEnd, Floor: m.floor, Sessions: map[string]lockrow.Session{},
	}}
	if mine.generation.Valid {
		l.mine = &mySession{mine.generation.Int64, mine.ends.Int64, mine.inc.Int64, mine.done.Int64, broken.String}
		l.Sessions[session] = lockrow.Session{Generation: mine.generation.Int64, Ends: mine.ends.Int64, Done: mine.done.Int64}
	}
	if held.generation.Valid {
		l.Sessions[f.holder.String] = lockrow.Session{Generation: held.generation.Int64, Ends: held.ends.Int64, Done: held.done.Int64}
	}
	l.known = map[string]bool{session: true, f.holder.String: true}
	return l, nil
}

// manyAtOnce bounds the parameters of one statement, and the rows that it returns.
const manyAtOnce = 200

// allRows ends a query for manyAtOnce rows at most. MySQL's sql_select_limit cuts the answer to a query
// without a limit of its own, and a session that is missing in an answer counts as ended.
const allRows = " LIMIT 200"

// sessions reads the rows of sessions. They are read after the lock, which does no
// harm: one that has ended never comes back with the same generation.
func (s *Store) sessions(ctx context.Context, ids []string, into map[string]lockrow.Session) error {
	for part := range slices.Chunk(ids, manyAtOnce) {
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		text := "/* fencelock sessions */ SELECT id, generation, ends, done FROM " + s.opts.prefix() + "session WHERE id IN (" + s.dialect.list(1, len(part)) + ")" + allRows
		err := s.rows(ctx, "sessions", text, args, func() {}, func(r *sql.Rows) error {
			var id string
			var v lockrow.Session
			if err := r.Scan(&id, &v.Generation, &v.Ends, &v.Done); err != nil {
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

// endSessions ends for good the sessions of a lock whose time has come, before their
// locks are granted to others. It is false if one of them turns out not to have ended: the clock was set
// back after the lock was read. The lock must be read again then, or the locks
// of a session that goes on would be granted.
func (s *Store) endSessions(ctx context.Context, b *lockrow.State) (sure bool, err error) {
	for _, id := range b.Ended() {
		generation := b.Sessions[id].Generation
		n, err := s.changed(ctx, "endSession", id, generation)
		if err != nil {
			return false, err
		}
		delete(b.Sessions, id)
		if n > 0 {
			continue
		}
		// It was removed already, or kept alive at the last moment.
		if err := s.sessions(ctx, []string{id}, b.Sessions); err != nil {
			return false, err
		}
		if now, there := b.Sessions[id]; there && now.Generation == generation && now.Ends <= b.Now {
			return false, nil
		}
	}
	return true, nil
}

// name is a lock's name as a parameter.
func (s *Store) name(name string) any {
	if s.dialect == MySQL {
		return []byte(name) // the column has bytes: no collation makes two names one
	}
	return name
}

// correct takes ends back that are further ahead than they can be. The clock of the server
// was ahead when they were written, and was set back since: without this a process that
// dies then keeps its locks for as long as the clock was ahead. It returns true if the lock
// must be read again.
//
// An end is never set to less than a whole TTL from now, so a session that lives keeps all
// that its process trusts in.
func (s *Store) correct(ctx context.Context, l *loaded) (again bool, err error) {
	if l.graceLeapt() {
		n, err := s.changed(ctx, "correctGrace", int64(lockrow.Leap))
		if err != nil {
			return false, err
		}
		again = n > 0
	}
	for id, session := range l.Sessions {
		if l.leapt(session) {
			n, err := s.changed(ctx, "correctSession", id, session.Generation)
			if err != nil {
				return false, err
			}
			again = again || n > 0
		}
	}
	return again, nil
}

// leapt reports whether the end of a session is further ahead than it can be.
func (l *loaded) leapt(session lockrow.Session) bool {
	return session.Ends > l.Now+2*l.rules.maxTTL+lockrow.Leap
}

// graceLeapt reports the same of the grace period.
func (l *loaded) graceLeapt() bool { return l.GraceEnd > l.Now+l.rules.maxTTL+lockrow.Leap }
