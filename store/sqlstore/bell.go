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

// bell is a named lock of MySQL (GET_LOCK) on a dedicated connection. It serves one claim, from
// when the claim is queued until it is gone. On the same connection the claim waits for the
// bell of the claim before it.
type bell struct {
	b     *bells
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

// job is what a bell's connection does next.
type job struct {
	other int64         // the bell to wait for; 0: free this one, and take a new one
	name  string        // the lock whose row to read then
	bound time.Duration // how long to wait
	read  bool          // the statement that waits also reads the row
	soon  bool          // the bell is idle when this is done, and that is in a moment
	ring  *ring         // written before done is closed
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

// ring is how a wait for a bell ended.
type ring struct {
	state ringState
	row   *polled // what was read then; nil if it was not
}

type ringState int

const (
	// ringLost: the connection ended, or a wait is under way there already. Nothing is known.
	ringLost ringState = iota
	// ringRung: the bell is free.
	ringRung
	// ringBound: the wait has reached its bound.
	ringBound
	// ringRefused: the wait could not begin, or the server ended it by its limit for the time of a
	// statement, and will most likely do so again.
	ringRefused
	// ringChain: the server took the wait for a deadlock, most likely because the other bell's
	// connection waits, too, and so on: more than 32 such waits count as one.
	ringChain
)

// bellGrace is how much longer than the server may take a statement is waited for: the
// connection may have been dropped silently. The claim polls by then.
const bellGrace = 5 * time.Second

const (
	// bellReads bounds a wait that also reads the row. It keeps the table open from its beginning:
	// FLUSH TABLES WITH READ LOCK, with which backups begin, waits for it while every write of
	// the server waits for that, and so does a statement that alters the table.
	bellReads = time.Second
	// bellLongest bounds all other waits. Proxies commonly close a connection without traffic after
	// a minute, and so long must a statement run until tools for backups wait for it or end it.
	bellLongest = 45 * time.Second
)

// bellWait is how a claim waits for a bell: for how long, and whether the same statement reads
// the row then. A lock may be granted without a bell: an operator breaks it, or the process
// of the claim before hangs for longer than its TTL. So the first in the queue, which is
// granted then, reads the row each second. The others do so once; then they wait for longer, the
// longer the further back, so that many claims that wait for long send few statements: the
// attempts that the core repeats, once in a TTL, find a grant that was missed.
func bellWait(place int, ttl time.Duration, longer bool) (bound time.Duration, read bool) {
	if place == 0 || !longer {
		return min(bellReads, ttl/2), true
	}
	far := time.Duration(1+min(place, 10)) * time.Second
	return min(far*time.Duration(1+min(place, 10)), 3*ttl, bellLongest), false
}

// serverBound is what the server is to wait for. MySQL takes whole seconds.
func serverBound(bound time.Duration) time.Duration {
	return time.Duration(math.Ceil(bound.Seconds())) * time.Second
}

// newBell returns a number that no other bell has. It is exact in JSON of any reader.
func newBell() int64 { return rand.Int64N(1<<53-1) + 1 }

// bellName is the name of a bell's lock. Such names are those of all databases of a server.
func bellName(id int64) string { return "fencelock/" + strconv.FormatInt(id, 36) }

// errNoBell means that a connection cannot have bells.
var errNoBell = errors.New("sqlstore: the connection cannot have named locks")

// connect opens a connection, takes a bell, and checks that it is that of this connection: a
// proxy may send each statement on another one, where named locks would stay.
func (b *bells) connect() (bl *bell, shared bool, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, bellGrace)
	defer cancel()
	if err := b.s.prepare(ctx); err != nil {
		return nil, false, err
	}
	conn, err := spared(ctx, b.s.db)
	if err != nil {
		return nil, false, err
	}
	bl = &bell{b: b, conn: conn, id: newBell(), jobs: make(chan job, 2), statements: map[string]*sql.Stmt{}}
	if err = bl.renew(ctx, bl.id); err != nil {
		return bl, false, err
	}
	// A wait is not a slow query. If the server does not allow that, its log has them.
	_, _ = conn.ExecContext(ctx, "/* fencelock bell */ SET SESSION long_query_time = 3600")
	var ours sql.NullBool
	err = conn.QueryRowContext(ctx, "/* fencelock bell */ SELECT IS_USED_LOCK(?) = CONNECTION_ID()", bellName(bl.id)).Scan(&ours)
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

// renew frees a bell, and takes one with another number.
func (bl *bell) renew(ctx context.Context, id int64) error {
	var freed, taken sql.NullBool
	err := bl.row(ctx, "renewBell", []any{bellName(bl.id), bellName(id)}, []any{&freed, &taken})
	if err == nil && !taken.Bool {
		err = errNoBell
	}
	return err
}

// row runs a statement of the store on the connection, prepared.
func (bl *bell) row(ctx context.Context, name string, args, to []any) error {
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
func (bl *bell) discard() {
	_ = bl.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = bl.conn.Close()
}

// serve does the work of a bell until its connection ends, or no claim has needed it for
// a while. nil means that nothing is wrong.
func (bl *bell) serve() error {
	for {
		select {
		case j := <-bl.jobs:
			err := bl.do(j)
			close(j.done)
			if err != nil {
				return bl.unless(err)
			}
		case <-time.After(bl.b.rests):
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

// touch keeps the connection of a claim's bell from being idle. It is a statement: a proxy may answer
// a ping itself.
func (bl *bell) touch() error {
	ctx, cancel := context.WithTimeout(bl.b.ctx, bellGrace)
	defer cancel()
	_, err := bl.conn.ExecContext(ctx, "/* fencelock bell */ DO 1")
	return err
}

func (bl *bell) do(j job) error {
	ctx, cancel := context.WithTimeout(bl.b.ctx, serverBound(j.bound)+bellGrace)
	defer cancel()
	if j.other != 0 {
		bl.mayQuit(cancel)
		r, err := bl.waitFor(ctx, j)
		*j.ring = r
		bl.b.mu.Lock()
		bl.waits, bl.quit = false, nil
		bl.b.mu.Unlock()
		return err
	}
	id := newBell()
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

// mayQuit lets a claim that is gone end its wait, if that is long. Otherwise its bell would be free
// only when the wait ends, and the claim behind it waits for that bell.
func (bl *bell) mayQuit(quit func()) {
	bl.b.mu.Lock()
	defer bl.b.mu.Unlock()
	bl.quit = quit
	if bl.left { // before the wait began
		quit()
	}
}

// unless returns the error of a connection, or nil if its claim has ended it.
func (bl *bell) unless(err error) error {
	bl.b.mu.Lock()
	defer bl.b.mu.Unlock()
	if bl.left {
		return nil
	}
	return err
}

// waitFor waits for another bell, and reads the row then if the job says so.
func (bl *bell) waitFor(ctx context.Context, j job) (ring, error) {
	var got sql.NullBool
	var counter sql.NullInt64
	p := &polled{}
	other, seconds := bellName(j.other), int64(serverBound(j.bound).Seconds())
	name, args, to := "waitBell", []any{other, other, seconds}, []any{&got, new(any)}
	if j.read {
		name, args = "waitBellRead", append(args, bl.b.s.name(j.name))
		to = append(to, &counter, &p.holder, &p.seq, &p.grants, &p.first)
	}
	err := bl.row(ctx, name, args, to)
	switch c := code(err); {
	case among(refusals, c):
		return ring{state: ringChain}, nil
	case !j.read && among(limits, c):
		return ring{state: ringRefused}, nil
	case err == nil && !got.Valid:
		err = errNoBell
	}
	if err != nil {
		return ring{}, err
	}
	r := ring{state: ringBound}
	if got.Bool {
		r.state = ringRung
	}
	if counter.Valid {
		p.counter = counter.Int64
		r.row = p
	}
	return r, nil
}

// refusals are the answers to a wait that would be a deadlock, or a chain of more than 32 waits,
// which counts as one. limits are those of a statement that took longer than the server allows;
// one that reads the row may have the bell of the other claim by then.
var refusals, limits = []string{"1213", "3058"}, []string{"1969", "3024"}

// sendLocked gives a job to the connection. b.mu must be held.
func (bl *bell) sendLocked(j job) job {
	j.ring, j.done = &ring{}, make(chan struct{})
	switch wait := j.other != 0; {
	case bl.gone:
		close(j.done)
		return j
	case wait && bl.waits: // of the same claim, which has begun to wait again
		j.ring.state = ringRefused
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
