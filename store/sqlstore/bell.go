// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

// bell is the named lock of a claim: an advisory lock of PostgreSQL, GET_LOCK of MySQL. The
// process of the claim has it from when the claim is queued until the claim is gone. The
// claim behind it in the queue waits for it, in the memory of the server:
//
//	claim A: queued ── has bell A ─────────────── granted ── released: bell A is free
//	claim B:        queued ── has bell B ── waits for bell A ······┘ reads the row: granted
//
// So exactly one process wakes for a handoff, and a process that dies frees its bells with
// its connection. A bell is a hint: only the row says who has the lock.
type bell struct {
	session string
	seq     uint64
}

// name is the bell as MySQL takes it: names have at most 64 characters, for all databases
// of a server. Session ids are random, so no prefix is needed.
func (b bell) name() string { return fmt.Sprintf("fencelock/%s/%d", b.session, b.seq) }

// key is the bell as PostgreSQL takes it. An application with advisory locks
// may use the same number: the wait then ends later, by its bound.
func (b bell) key() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(b.name()))
	return int64(h.Sum64())
}

// arg is the parameter for a bell.
func (b bell) arg(d Dialect) any {
	if d == MySQL {
		return b.name()
	}
	return b.key()
}

const (
	// maxBells bounds the bells of a process: PostgreSQL has room for max_locks_per_transaction
	// (64) locks for each connection, all of them shared with the application.
	maxBells = 32
	// maxWaits bounds the connections on which a process waits for bells; one more has its
	// own bells. Claims beyond it listen or poll.
	maxWaits = 4
	// bellsAgain is how long after a failure bells are not tried.
	bellsAgain = 10 * time.Second
	// bellsIdle is how long a connection without a use is kept.
	bellsIdle = 30 * time.Second
	// connectWait is how long a claim waits for a connection: the pool may be in use.
	connectWait = time.Second
	// hotFor is how long after a claim was queued the next claims for its lock are queued
	// without trying to acquire it first.
	hotFor = time.Second
	maxHot = 1000
)

// bells are the bells of a store, and the connections for them.
type bells struct {
	s       *Store
	ctx     context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu     sync.Mutex
	never  bool // they cannot work here
	failed bool // the last try did not
	after  time.Time
	owner  *owner
	idle   []*bellConn
	waits  int // connections that wait or are idle
	hot    map[string]time.Time
}

// owner is the connection that has the bells of the process. Its statements never wait for
// a lock of others.
type owner struct {
	use  sync.Mutex // held for a statement
	conn *bellConn
	held map[bell]bool // bells.mu must be held
	last time.Time     // bells.mu must be held
}

func (b *bells) init(s *Store) {
	b.s, b.hot = s, map[string]time.Time{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.never = s.opts.Poll || s.opts.Pooler || !s.known
}

func (b *bells) close() {
	b.mu.Lock() // nothing new begins after it
	b.cancel()
	b.mu.Unlock()
	b.working.Wait()
	b.mu.Lock()
	k, idle := b.owner, b.idle
	b.owner, b.idle, b.never = nil, nil, true
	b.mu.Unlock()
	if k != nil {
		k.use.Lock()
		k.conn.discard()
		k.use.Unlock()
	}
	for _, c := range idle {
		c.discard()
	}
}

// off reports whether bells should work here and do not.
func (b *bells) off() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// usableLocked reports whether bells may be used now. b.mu must be held.
func (b *bells) usableLocked() bool {
	return !b.never && b.ctx.Err() == nil && !b.s.pooled.Load() && !time.Now().Before(b.after) && waitsOf(b.s.db.Stats().MaxOpenConnections) > 0
}

// waitsOf returns on how many connections a process waits for bells, by the limit of its
// handle, 0 for none. With the connection that has the bells it is half of them at most: a
// handle without a free connection cannot keep the session alive.
func waitsOf(limit int) int {
	if limit <= 0 {
		return maxWaits
	}
	return max(0, min(maxWaits, limit/2-1))
}

// fails notes that bells do not work now. The claims listen or poll.
func (b *bells) fails(never bool) {
	b.mu.Lock()
	b.failed, b.never, b.after = true, b.never || never, time.Now().Add(bellsAgain)
	b.mu.Unlock()
}

// isHot reports whether claims for a lock were queued a moment ago.
func (b *bells) isHot(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.hot[name]) < hotFor
}

// heat notes that a claim for a lock was queued.
func (b *bells) heat(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.hot) >= maxHot {
		clear(b.hot)
	}
	b.hot[name] = time.Now()
}

// borrow returns the owner for one statement if it is idle, or nil: no claim waits for it.
// It is opened if it is missing, which the first claim that waits pays for.
func (b *bells) borrow(ctx context.Context) *owner {
	b.mu.Lock()
	k := b.owner
	usable := b.usableLocked() && (k == nil || len(k.held) < maxBells)
	b.mu.Unlock()
	if !usable {
		return nil
	}
	if k == nil {
		k = b.openOwner(ctx)
	}
	if k == nil || !k.use.TryLock() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner != k {
		k.use.Unlock()
		return nil
	}
	k.last = time.Now()
	return k
}

// openOwner connects. Of two callers at once the second finds the owner of the first.
func (b *bells) openOwner(ctx context.Context) *owner {
	conn, err := b.connect(ctx)
	if err != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner != nil || b.ctx.Err() != nil {
		b.working.Go(conn.discard)
		return b.owner
	}
	b.failed = false
	k := &owner{conn: conn, held: map[bell]bool{}, last: time.Now()}
	b.owner = k
	b.working.Go(func() { b.retire(k) })
	return k
}

// retire closes an owner that is not used any more.
func (b *bells) retire(k *owner) {
	for pause(b.ctx, bellsIdle) {
		b.mu.Lock()
		gone := b.owner != k
		idle := !gone && len(k.held) == 0 && time.Since(k.last) > bellsIdle
		if idle {
			b.owner = nil
		}
		b.mu.Unlock()
		if idle {
			k.use.Lock()
			k.conn.discard()
			k.use.Unlock()
		}
		if idle || gone {
			return
		}
	}
}

// connect opens a connection and checks that statements on it reach one process of the
// server: behind a pooler named locks would be left on the connections of others.
func (b *bells) connect(ctx context.Context) (*bellConn, error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	conn, err := b.s.db.Conn(ctx)
	if err != nil {
		if caller.Err() == nil {
			b.fails(false)
		}
		return nil, err
	}
	c := &bellConn{conn, map[string]*sql.Stmt{}}
	shared := false
	if b.s.dialect == PostgreSQL {
		err = conn.Raw(func(dc any) error {
			shared = b.s.hub.behindPooler(dc.(*stdlib.Conn).Conn().PgConn())
			return nil
		})
		if err == nil {
			_, err = conn.ExecContext(ctx, fmt.Sprintf("SET lock_timeout = %d", waitPostgres.Milliseconds()))
		}
	} else {
		shared, err = sharedMySQL(ctx, conn)
	}
	if err == nil && !shared {
		return c, nil
	}
	c.discard()
	if shared || caller.Err() == nil {
		b.fails(shared)
	}
	return nil, errShared
}

var errShared = errors.New("sqlstore: no dedicated connection")

// sharedMySQL reports whether another connection than this one has what it has locked.
func sharedMySQL(ctx context.Context, conn *sql.Conn) (shared bool, err error) {
	var ours sql.NullBool
	test := bell{session: fmt.Sprintf("%032x", time.Now().UnixNano())}.name()
	if _, err = conn.ExecContext(ctx, "/* fencelock bell */ DO GET_LOCK('"+test+"', 0)"); err == nil {
		err = conn.QueryRowContext(ctx, "/* fencelock bell */ SELECT IS_USED_LOCK('"+test+"') = CONNECTION_ID(), RELEASE_LOCK('"+test+"')").Scan(&ours, new(any))
	}
	return err == nil && !ours.Bool, err
}

// keep gives a borrowed owner back. A statement that failed may have left anything: the
// connection is closed, which frees all its bells.
func (b *bells) keep(k *owner, err error, took, freed *bell) {
	broken := err != nil && code(err) == ""
	b.mu.Lock()
	if broken && b.owner == k {
		b.owner = nil
	}
	if took != nil && err == nil {
		k.held[*took] = true
	}
	if freed != nil && err == nil {
		delete(k.held, *freed)
	}
	b.mu.Unlock()
	if broken {
		k.conn.discard()
	}
	k.use.Unlock()
}

// use returns the owner that has a bell, for one statement, or nil if it is not idle.
func (b *bells) use(own bell) *owner {
	k := b.has(own)
	if k == nil || !k.use.TryLock() {
		return nil
	}
	if b.has(own) != k { // its connection broke in between
		k.use.Unlock()
		return nil
	}
	return k
}

// has returns the owner that has a bell, or nil.
func (b *bells) has(own bell) *owner {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner == nil || !b.owner.held[own] {
		return nil
	}
	return b.owner
}

// free frees the bell of a claim that is gone by another way than the statement which
// frees both. No caller waits for it.
func (b *bells) free(own bell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.owner
	if k == nil || !k.held[own] || b.ctx.Err() != nil {
		return
	}
	b.working.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, helloWait)
		defer cancel()
		k.use.Lock()
		if b.has(own) != k {
			k.use.Unlock()
			return
		}
		_, err := k.conn.changed(ctx, b.s, "freeBell", own.arg(b.s.dialect))
		b.keep(k, err, nil, &own)
	})
}

// freeAll frees the bells of a session that has ended.
func (b *bells) freeAll(session string) {
	b.mu.Lock()
	var own []bell
	if b.owner != nil {
		for held := range b.owner.held {
			if held.session == session {
				own = append(own, held)
			}
		}
	}
	b.mu.Unlock()
	for _, held := range own {
		b.free(held)
	}
}
