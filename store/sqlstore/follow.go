// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// waitPostgres bounds one wait for a bell. A statement that waits has a snapshot, which
	// keeps VACUUM from removing what was deleted since, in the whole database.
	waitPostgres = time.Second
	// waitFirst bounds a wait on MySQL, where it costs nothing, for the first in the queue: a
	// grant that an operator makes by a break frees no bell. waitOthers is for the others.
	waitFirst  = 2 * time.Second
	waitOthers = 10 * time.Second
)

// seen is what the row had when the wait for a bell was over.
type seen struct {
	rung    bool // the bell is free
	counter int64
	holder  string
	seq     uint64
}

// step is what a claim that waits for a bell does next.
type step uint8

const (
	stepGranted step = iota // it has the lock
	stepWait                // wait for the same bell again
	stepReread              // read who is before it now
	stepGiveUp              // listen or poll
)

// after decides what a claim does after a wait for the bell of the claim before it. counter
// is that of the lock before the wait.
func (v seen) after(d Dialect, own bell, counter int64) step {
	switch {
	case v.holder == own.session && v.seq == own.seq:
		return stepGranted
	case v.rung:
		return stepReread // the claim before it is gone, or has no bell
	case d == PostgreSQL && v.counter == counter:
		return stepGiveUp // the lock is held for long: LISTEN needs no snapshot
	}
	return stepWait
}

// following is a wait for bells on behalf of one claim. It goes on between two calls of
// Await.
type following struct {
	cancel context.CancelFunc
	left   atomic.Bool   // no claim needs it any more
	done   chan struct{} // closed when it is over
}

// unfollow ends a wait that no claim needs any more. A statement that is canceled costs its
// connection, so it is left to end by itself as long as there is another connection.
func (b *bells) unfollow(f *following) {
	if f == nil {
		return
	}
	f.left.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idle) == 0 && b.waits >= waitsOf(b.s.db.Stats().MaxOpenConnections) {
		f.cancel()
	}
}

// follow waits in the background for the bell of the claim before w, and then reads the row,
// until w has the lock. It reports whether there is a connection for it.
func (b *bells) follow(ss *session, name string, w *waiting, own, before bell, place int, counter int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.usableLocked() || len(b.idle) == 0 && b.waits >= waitsOf(b.s.db.Stats().MaxOpenConnections) {
		return false
	}
	var conn *bellConn
	if n := len(b.idle); n > 0 {
		conn = b.idle[n-1]
		b.idle = b.idle[:n-1]
	} else {
		b.waits++
	}
	ctx, cancel := context.WithCancel(b.ctx)
	f := &following{cancel: cancel, done: make(chan struct{})}
	ss.mu.Lock()
	w.follow = f
	ss.mu.Unlock()
	b.working.Go(func() {
		defer close(f.done)
		defer cancel()
		l := &follower{b: b, f: f, ss: ss, name: name, own: own, before: before, place: place, counter: counter}
		conn, err := l.run(ctx, conn)
		b.putBack(conn, err)
	})
	return true
}

// putBack keeps a connection for the next wait, or closes it.
func (b *bells) putBack(conn *bellConn, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if conn == nil || err != nil || b.ctx.Err() != nil {
		b.waits--
		if conn != nil {
			b.working.Go(conn.discard)
		}
		return
	}
	b.idle = append(b.idle, conn)
	if len(b.idle) == 1 {
		b.working.Go(b.retireIdle)
	}
}

// retireIdle closes connections that no claim waits on, one after the other.
func (b *bells) retireIdle() {
	for pause(b.ctx, bellsIdle) {
		b.mu.Lock()
		var conn *bellConn
		if len(b.idle) > 0 {
			conn = b.idle[0]
			b.idle = b.idle[1:]
			b.waits--
		}
		more := len(b.idle) > 0
		b.mu.Unlock()
		if conn != nil {
			conn.discard()
		}
		if !more {
			return
		}
	}
}

// follower is the work of following.
type follower struct {
	b           *bells
	f           *following
	ss          *session
	name        string
	own, before bell
	place       int
	counter     int64
}

// run waits until the claim has the lock, or bells do not help it. The connection may be nil
// at first; the one that it returns is good for another claim unless there is an error.
func (l *follower) run(ctx context.Context, conn *bellConn) (*bellConn, error) {
	if conn == nil {
		var err error
		if conn, err = l.b.connect(ctx); err != nil {
			return nil, err
		}
	}
	for {
		v, err := l.wait(ctx, conn)
		if err != nil || l.f.left.Load() {
			return conn, err
		}
		switch v.after(l.b.s.dialect, l.own, l.counter) {
		case stepGranted:
			l.ss.pushed(l.own.seq, v.counter)
			return conn, nil
		case stepGiveUp:
			return conn, nil
		case stepReread:
			if !l.reread(ctx) {
				return conn, nil
			}
		case stepWait:
		}
		l.counter = v.counter
	}
}

// wait waits for the bell and reads the row.
func (l *follower) wait(ctx context.Context, conn *bellConn) (v seen, err error) {
	if l.b.s.dialect == PostgreSQL {
		return l.waitPostgres(ctx, conn)
	}
	bound := waitOthers
	if l.place == 0 {
		bound = waitFirst
	}
	var got, back, seq sql.NullInt64
	var holder sql.NullString
	err = conn.row(ctx, l.b.s, "waitBell", []any{l.before.name(), bound.Seconds(), l.before.name()}, []any{&got, &back})
	if err == nil || among(again, code(err)) {
		v.rung = err != nil || got.Int64 == 1
		err = conn.row(ctx, l.b.s, "afterBell", []any{l.b.s.name(l.name)}, []any{&v.counter, &holder, &seq})
	}
	if among(again, code(err)) { // the row stays locked: it is read again
		err = nil
	}
	v.holder, v.seq = holder.String, uint64(seq.Int64)
	return v, err
}

// waitPostgres sends two statements at once: a statement does not see what was committed
// while it waited, the one after it does.
func (l *follower) waitPostgres(ctx context.Context, conn *bellConn) (v seen, err error) {
	s := l.b.s
	err = conn.Raw(func(dc any) error {
		var batch pgx.Batch
		batch.Queue(s.texts["waitBell"], l.before.key())
		batch.Queue(s.texts["poll"], l.name)
		results := dc.(*stdlib.Conn).Conn().SendBatch(ctx, &batch)
		_, err := results.Exec()
		if code(err) == "55P03" { // lock_timeout
			_ = results.Close()
			return l.read(ctx, dc.(*stdlib.Conn).Conn(), &v)
		}
		if err == nil {
			v.rung = true
			err = scanPoll(results.QueryRow(), &v)
		}
		if closed := results.Close(); err == nil {
			err = closed
		}
		return err
	})
	return v, err
}

func (l *follower) read(ctx context.Context, conn *pgx.Conn, v *seen) error {
	return scanPoll(conn.QueryRow(ctx, l.b.s.texts["poll"], l.name), v)
}

// scanPoll reads the row of the statement poll.
func scanPoll(row pgx.Row, v *seen) error {
	var holder, grants sql.NullString
	var seq sql.NullInt64
	if err := row.Scan(&v.counter, &holder, &seq, &grants); err != nil {
		return err
	}
	v.holder, v.seq = holder.String, uint64(seq.Int64)
	return nil
}

// reread finds the claim that is before ours now. It reports false without a claim that has a
// bell to wait for.
func (l *follower) reread(ctx context.Context) bool {
	now, err := l.b.s.loadShort(ctx, l.ss.sid, l.name)
	if err != nil {
		return false
	}
	before, place, ok := now.Before(l.own.session, l.own.seq)
	if !ok || before.Plain != 1 || (bell{before.Session, before.Seq}) == l.before {
		return false
	}
	l.before, l.place = bell{before.Session, before.Seq}, place
	return true
}
