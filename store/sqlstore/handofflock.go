// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// handoff lock is a named lock of MySQL (GET_LOCK) on a dedicated connection. It serves one claim, from
// when the claim is queued until it is gone. On the same connection the claim waits for the
// handoff lock of the claim before it.
type handoffLock struct {
	b     *handoffLocks
	conn  *sql.Conn
	id    int64    // b.mu must be held, except in serve
	waits bool     // a wait is under way or about to be; b.mu must be held
	long  bool     // that does not read the row; b.mu must be held
	gone  bool     // b.mu must be held
	jobs  chan job // has room for all that a claim can send: one wait, and to free it
	quit  func()   // ends the wait that is under way, and the connection; b.mu must be held
	left  bool     // the claim is gone, and has ended a long wait so; b.mu must be held

	statements map[string]*sql.Stmt // of serve
}

// job is what a handoff lock's connection does next.
type job struct {
	other int64         // the handoff lock to wait for; 0: free this one, and take a new one
	name  string        // the lock whose row to read then
	bound time.Duration // how long to wait
	read  bool          // the statement that waits also reads the row
	soon  bool          // the handoff lock is idle when this is done, and that is in a moment
	end   *waitEnd      // written before done is closed
	done  chan struct{} // closed when it is done
}

// over reports whether the job is done.
func (j *job) over() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// waitEnd is how a wait for a handoff lock ended.
type waitEnd struct {
	state waitState
	row   *polled // what was read then; nil if it was not
}

type waitState int

const (
	// waitLost: the connection ended, or a wait is under way there already. Nothing is known.
	waitLost waitState = iota
	// waitFreed: the handoff lock is free.
	waitFreed
	// waitBound: the wait has reached its bound.
	waitBound
	// waitRefused: the wait could not begin, or the server ended it by its limit for the time of a
	// statement, and will most likely do so again.
	waitRefused
	// waitChain: the server took the wait for a deadlock, most likely because the other handoff lock's
	// connection waits, too, and so on: more than 32 such waits count as one.
	waitChain
)

// handoffGrace is how much longer than the server may take a statement is waited for: the
// connection may have been dropped silently. The claim polls by then.
const handoffGrace = 5 * time.Second

const (
	// longestRead bounds a wait that also reads the row. It keeps the table open from its beginning:
	// FLUSH TABLES WITH READ LOCK, with which backups begin, waits for it while every write of
	// the server waits for that, and so does a statement that alters the table.
	longestRead = time.Second
	// longestWait bounds all other waits. Proxies commonly close a connection without traffic after
	// a minute, and so long must a statement run until tools for backups wait for it or end it.
	longestWait = 45 * time.Second
)

// handoffWait is how a claim waits for a handoff lock: for how long, and whether the same statement reads
// the row then. A lock may be granted without a handoff lock: an operator breaks it, or the process
// of the claim before hangs for longer than its TTL. So the first in the queue, which is
// granted then, reads the row each second. The others do so once; then they wait for longer, the
// longer the further back, so that many claims that wait for long send few statements: the
// attempts that the core repeats, once in a TTL, find a grant that was missed.
func handoffWait(place int, ttl time.Duration, longer bool) (bound time.Duration, read bool) {
	if place == 0 || !longer {
		return min(longestRead, ttl/2), true
	}
	far := time.Duration(1+min(place, 10)) * time.Second
	return min(far*time.Duration(1+min(place, 10)), 3*ttl, longestWait), false
}

// serverBound is what the server is to wait for. MySQL takes whole seconds.
func serverBound(bound time.Duration) time.Duration {
	return time.Duration(math.Ceil(bound.Seconds())) * time.Second
}

// newHandoffLock returns a number that no other handoff lock has. It is exact in JSON of any reader.
func newHandoffLock() int64 { return rand.Int64N(1<<53-1) + 1 }

// handoffLockName is the name of a handoff lock's lock. Such names are those of all databases of a server.
func handoffLockName(id int64) string { return "fencelock/" + strconv.FormatInt(id, 36) }

// errNoHandoffLock means that a connection cannot have handoff locks.
var errNoHandoffLock = errors.New("sqlstore: the connection cannot have named locks")

// connect opens a connection, takes a handoff lock, and checks that it is that of this connection: a
// proxy may send each statement on another one, where named locks would stay.
func (b *handoffLocks) connect() (bl *handoffLock, shared bool, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, handoffGrace)
	defer cancel()
	if err := b.s.prepare(ctx); err != nil {
		return nil, false, err
	}
	conn, err := spared(ctx, b.s.db)
	if err != nil {
		return nil, false, err
	}
	bl = &handoffLock{b: b, conn: conn, id: newHandoffLock(), jobs: make(chan job, 2), statements: map[string]*sql.Stmt{}}
	if err = bl.renew(ctx, bl.id); err != nil {
		return bl, false, err
	}
	// A wait is not a slow query. If the server does not allow that, its log has them.
	_, _ = conn.ExecContext(ctx, "/* fencelock handoffLock */ SET SESSION long_query_time = 3600")
	var ours sql.NullBool
	err = conn.QueryRowContext(ctx, "/* fencelock handoffLock */ SELECT IS_USED_LOCK(?) = CONNECTION_ID()", handoffLockName(bl.id)).Scan(&ours)
	return bl, err == nil && !ours.Bool, err
}

// spared takes a connection of a handle if it can have another one then. It may be the only
// one that the handle has, and a server at its limit gives it no other: the keep-alives of
// the sessions would fail.
func spared(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	other, err := db.Conn(ctx)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, other.Close()
}

// renew frees a handoff lock, and takes one with another number.
func (bl *handoffLock) renew(ctx context.Context, id int64) error {
	var freed, taken sql.NullBool
	err := bl.row(ctx, "renewHandoffLock", []any{handoffLockName(bl.id), handoffLockName(id)}, []any{&freed, &taken})
	if err == nil && !taken.Bool {
		err = errNoHandoffLock
	}
	return err
}

// row runs a statement of the store on the connection, prepared.
func (bl *handoffLock) row(ctx context.Context, name string, args, to []any) error {
	st := bl.statements[name]
	if st == nil {
		var err error
		if st, err = bl.conn.PrepareContext(ctx, bl.b.s.texts[name]); err != nil {
			return err
		}
		bl.statements[name] = st
	}
	return st.QueryRowContext(ctx, args...).Scan(to...)
}

// discard closes the connection: it has named locks.
func (bl *handoffLock) discard() {
	_ = bl.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = bl.conn.Close()
}

// serve does the work of a handoff lock until its connection ends, or no claim has needed it for
// a while. nil means that nothing is wrong.
func (bl *handoffLock) serve() error {
	for {
		select {
		case j := <-bl.jobs:
			err := bl.do(j)
			close(j.done)
			if err != nil {
				return bl.unless(err)
			}
		case <-time.After(bl.b.idleFor):
			if bl.b.retire(bl) {
				return nil
			}
			if err := bl.touch(); err != nil {
				return err
			}
		case <-bl.b.ctx.Done():
			return nil
		}
	}
}

// touch keeps the connection of a claim's handoff lock from being idle. It is a statement: a proxy may answer
// a ping itself.
func (bl *handoffLock) touch() error {
	ctx, cancel := context.WithTimeout(bl.b.ctx, handoffGrace)
	defer cancel()
	_, err := bl.conn.ExecContext(ctx, "/* fencelock handoffLock */ DO 1")
	return err
}

func (bl *handoffLock) do(j job) error {
	ctx, cancel := context.WithTimeout(bl.b.ctx, serverBound(j.bound)+handoffGrace)
	defer cancel()
	if j.other != 0 {
		bl.mayQuit(cancel)
		r, err := bl.waitFor(ctx, j)
		*j.end = r
		bl.b.mu.Lock()
		bl.waits, bl.quit = false, nil
		bl.b.mu.Unlock()
		return err
	}
	id := newHandoffLock()
	err := bl.renew(ctx, id)
	bl.b.mu.Lock()
	defer bl.b.mu.Unlock()
	bl.b.overLocked(j)
	if err == nil {
		bl.id, bl.left = id, false
		bl.b.putBackLocked(bl)
	}
	return err
}

// mayQuit lets a claim that is gone end its wait, if that is long. Otherwise its handoff lock would be free
// only when the wait ends, and the claim behind it waits for that handoff lock.
func (bl *handoffLock) mayQuit(quit func()) {
	bl.b.mu.Lock()
	defer bl.b.mu.Unlock()
	bl.quit = quit
	if bl.left { // before the wait began
		quit()
	}
}

// unless returns the error of a connection, or nil if its claim has ended it.
func (bl *handoffLock) unless(err error) error {
	bl.b.mu.Lock()
	defer bl.b.mu.Unlock()
	if bl.left {
		return nil
	}
	return err
}

// waitFor waits for another handoff lock, and reads the row then if the job says so.
func (bl *handoffLock) waitFor(ctx context.Context, j job) (waitEnd, error) {
	var got sql.NullBool
	var counter sql.NullInt64
	p := &polled{}
	other, seconds := handoffLockName(j.other), int64(serverBound(j.bound).Seconds())
	name, args, to := "waitHandoffLock", []any{other, other, seconds}, []any{&got, new(any)}
	if j.read {
		name, args = "waitHandoffLockRead", append(args, bl.b.s.name(j.name))
		to = append(to, &counter, &p.holder, &p.seq, &p.grants, &p.first)
	}
	err := bl.row(ctx, name, args, to)
	switch c := code(err); {
	case among(refusals, c):
		return waitEnd{state: waitChain}, nil
	case !j.read && among(limits, c):
		return waitEnd{state: waitRefused}, nil
	case err == nil && !got.Valid:
		err = errNoHandoffLock
	}
	if err != nil {
		return waitEnd{}, err
	}
	r := waitEnd{state: waitBound}
	if got.Bool {
		r.state = waitFreed
	}
	if counter.Valid {
		p.counter = counter.Int64
		r.row = p
	}
	return r, nil
}

// refusals are the answers to a wait that would be a deadlock, or a chain of more than 32 waits,
// which counts as one. limits are those of a statement that took longer than the server allows;
// one that reads the row may have the handoff lock of the other claim by then.
var refusals, limits = []string{"1213", "3058"}, []string{"1969", "3024"}

// sendLocked gives a job to the connection. b.mu must be held.
func (bl *handoffLock) sendLocked(j job) job {
	j.end, j.done = &waitEnd{}, make(chan struct{})
	switch wait := j.other != 0; {
	case bl.gone:
		close(j.done)
		return j
	case wait && bl.waits: // of the same claim, which has begun to wait again
		j.end.state = waitRefused
		close(j.done)
		return j
	case wait:
		bl.waits, bl.long = true, !j.read
	case !bl.waits: // otherwise that may take as long as the wait
		j.soon = true
		bl.b.freed++
	case bl.long:
		bl.left = true
		if bl.quit != nil {
			bl.quit()
		}
	}
	bl.jobs <- j
	return j
}
