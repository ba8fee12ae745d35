// SPDX-License-Identifier: Apache-2.0

package pgadvisory

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

var (
	// ErrHeld is returned by TryLock when another connection has the lock.
	ErrHeld = errors.New("pgadvisory: the lock is held by another connection")
	// ErrLost is the cause of the context of a Held whose connection ended, and is returned by its Unlock.
	ErrLost = errors.New("pgadvisory: the connection that had the lock has ended")
	// ErrPooled is returned when statements of one connection reach different backends, or a backend serves two
	// connections: a pooler in transaction mode is in between. Connect to the server itself, or to a pooler in session mode.
	ErrPooled = errors.New("pgadvisory: a pooler in transaction mode shares backends between connections; connect without it")
	// errReleased is the cause of the context of a Held that was unlocked.
	errReleased = errors.New("pgadvisory: unlocked")
)

// Options are the settings of a lock; nil stands for the defaults.
type Options struct {
	// Interval is how often the connection is asked whether it still works, and how long it may take to answer.
	// Default one second.
	Interval time.Duration
	// Poll is how long to wait between two tries. Default 100ms; the half of it is random.
	Poll time.Duration
}

func (o *Options) orDefault() Options {
	all := Options{Interval: time.Second, Poll: 100 * time.Millisecond}
	if o != nil && o.Interval > 0 {
		all.Interval = o.Interval
	}
	if o != nil && o.Poll > 0 {
		all.Poll = o.Poll
	}
	return all
}

// Held is an advisory lock that is held, with the connection that it belongs to.
type Held struct {
	key    Key
	conn   *sql.Conn
	pid    int
	mark   string // on the backend: a second client of it would get the lock again, which the backend has already
	ctx    context.Context
	cancel context.CancelCauseFunc
	asking chan struct{} // has one while a statement runs
	ended  chan struct{}
}

// Lock takes a lock and waits for it until ctx ends. It does not wait inside the server: a statement that waits there
// cannot be given up without an unknown outcome.
func Lock(ctx context.Context, db *sql.DB, key Key, opts *Options) (*Held, error) {
	o := opts.orDefault()
	for {
		h, err := TryLock(ctx, db, key, opts)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		pause := time.NewTimer(o.Poll/2 + rand.N(o.Poll/2+1))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("pgadvisory: waited for %v: %w", key, context.Cause(ctx))
		}
	}
}

// TryLock takes a lock, or returns ErrHeld.
func TryLock(ctx context.Context, db *sql.DB, key Key, opts *Options) (*Held, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("pgadvisory: %w", err)
	}
	h := &Held{key: key, conn: conn, mark: strconv.FormatUint(rand.Uint64(), 36), asking: make(chan struct{}, 1), ended: make(chan struct{})}
	got, err := h.take(ctx)
	switch {
	case err != nil:
		h.discard() // it may have the lock
		return nil, fmt.Errorf("pgadvisory: lock %v: %w", key, err)
	case !got:
		_ = conn.Close() // it goes back to the pool, and has nothing
		return nil, ErrHeld
	case h.shared(ctx, db):
		h.release()
		return nil, ErrPooled
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go h.watch(opts.orDefault().Interval)
	return h, nil
}

// take asks for the lock. The backend must be that of the statement before, and no other client may have marked it: otherwise
// nothing is taken, since a pooler keeps a backend, with its locks, when its client leaves.
func (h *Held) take(ctx context.Context) (got bool, err error) {
	if err = h.conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&h.pid); err != nil {
		return false, err
	}
	try, args := "pg_try_advisory_lock($3::bigint)", []any{h.pid, h.mark, h.key.whole}
	if h.key.pair {
		try, args = "pg_try_advisory_lock($3::int4, $4::int4)", []any{h.pid, h.mark, h.key.first, h.key.second}
	}
	var ours bool
	err = h.conn.QueryRowContext(ctx, `SELECT ours, got, CASE WHEN got THEN set_config('`+marks+`', $2::text, false) END IS NULL
		FROM (SELECT ours, CASE WHEN ours THEN `+try+` ELSE false END AS got
			FROM (SELECT pg_backend_pid() = $1::int4 AND coalesce(current_setting('`+marks+`', true), '') = '' AS ours OFFSET 0) AS backend
			OFFSET 0) AS tried`, args...).Scan(&ours, &got, new(bool))
	if err == nil && !ours {
		err = ErrPooled
	}
	return got, err
}

// shared reports whether a second connection of the handle has the same backend. Only a pooler in transaction mode gives it to both: to
// the second because the first is idle. Without it any client of the pooler would have the lock, too, and nothing else shows it
// as long as the pooler gives us the same backend each time, as pgbouncer does by default. A handle that has no second connection
// to give in time is not asked.
func (h *Held) shared(ctx context.Context, db *sql.DB) bool {
	if db.Stats().MaxOpenConnections == 1 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, sharedPatience)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	var pid int
	return conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid) == nil && pid == h.pid
}

// sharedPatience bounds the wait for a second connection.
const sharedPatience = 500 * time.Millisecond

// release frees the lock on a backend that a pooler keeps when the connection is closed. A statement that reaches that backend frees
// the lock; one that reaches another ends it, if it is idle: then it does nothing for anybody. Then the connection is closed. While another
// client has a transaction there, that takes longer than the caller waits.
func (h *Held) release() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer h.discard()
		h.releaseBackend()
	}()
	select {
	case <-done:
	case <-time.After(unlockPatience):
	}
}

func (h *Held) releaseBackend() {
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	class, object, space := h.key.lockedAs()
	unlock, args := "pg_advisory_unlock($5::bigint)", []any{h.pid, class, object, space, h.key.whole}
	if h.key.pair {
		unlock, args = "pg_advisory_unlock($5::int4, $6::int4)", []any{h.pid, class, object, space, h.key.first, h.key.second}
	}
	for {
		var had bool
		err := h.conn.QueryRowContext(ctx, `WITH had AS MATERIALIZED (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = $1::int4
				AND classid = $2::bigint::oid AND objid = $3::bigint::oid AND objsubid = $4::int4
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
			SELECT EXISTS (SELECT 1 FROM had), CASE WHEN NOT EXISTS (SELECT 1 FROM had) THEN false
				WHEN pg_backend_pid() = $1::int4 THEN `+unlock+` AND set_config('`+marks+`', '', false) = ''
				ELSE (SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a, had WHERE a.pid = had.pid AND a.state = 'idle') END`, args...).Scan(&had, new(sql.NullBool))
		if err != nil || !had {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond): // until it is gone
		case <-ctx.Done():
			return
		}
	}
}

// marks is the setting of a backend that has the mark of its lock.
const marks = "fencelock.advisory"

// Context ends when the lock is unlocked, or lost with its connection. It has the values of the context that the lock was
// taken with, and does not end with it: that one may bound the wait. Do gives a context that ends with both.
func (h *Held) Context() context.Context { return h.ctx }

// watch asks the connection again and again. One that does not answer in time has lost the lock, as far as this process can know.
func (h *Held) watch(every time.Duration) {
	defer close(h.ended)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-h.ctx.Done():
			return
		}
		if err := h.ask(every); err != nil {
			h.cancel(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
	}
}

// ask checks that the connection has the backend that has the lock. The context of the Held ends in time even if the driver does
// not return in time.
func (h *Held) ask(within time.Duration) error {
	h.asking <- struct{}{}
	defer func() { <-h.asking }()
	if h.ctx.Err() != nil {
		return nil // it is being unlocked
	}
	silent := time.AfterFunc(within, func() { h.cancel(fmt.Errorf("%w: no answer within %v", ErrLost, within)) })
	defer silent.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var pid int
	var mark string
	err := h.conn.QueryRowContext(ctx, "SELECT pg_backend_pid(), coalesce(current_setting('"+marks+"', true), '')").Scan(&pid, &mark)
	if err == nil && (pid != h.pid || mark != h.mark) {
		err = ErrPooled
	}
	return err
}

// Unlock gives the lock back. It works on a context that has ended. If the server does not confirm it, the connection is closed, with
// which the lock is free. It returns an error that wraps ErrLost if the lock was lost before.
func (h *Held) Unlock(ctx context.Context) error {
	within := time.NewTimer(unlockPatience)
	defer within.Stop()
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-within.C:
		h.cancel(fmt.Errorf("%w: no answer within %v", ErrLost, unlockPatience))
		go h.discard() // waits for the driver
		return context.Cause(h.ctx)
	}
	switch cause := context.Cause(h.ctx); {
	case errors.Is(cause, errReleased):
		return nil
	case errors.Is(cause, ErrPooled):
		h.release()
		return cause
	case cause != nil:
		h.discard()
		return cause
	}
	h.cancel(errReleased)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockPatience)
	defer cancel()
	unlock, args := "pg_advisory_unlock($2::bigint)", []any{h.pid, h.key.whole}
	if h.key.pair {
		unlock, args = "pg_advisory_unlock($2::int4, $3::int4)", []any{h.pid, h.key.first, h.key.second}
	}
	var same bool
	var had sql.NullBool
	err := h.conn.QueryRowContext(ctx, "SELECT pg_backend_pid() = $1::int4, CASE WHEN pg_backend_pid() = $1::int4 THEN "+unlock+
		" AND set_config('"+marks+"', '', false) = '' END", args...).Scan(&same, &had)
	switch {
	case err == nil && !same:
		h.release()
		return errors.Join(ErrLost, ErrPooled)
	case err != nil || !had.Bool:
		h.discard()
		return errors.Join(ErrLost, err)
	}
	return h.conn.Close()
}

// releasePatience bounds what goes on after an unlock through a pooler.
const releasePatience = time.Minute

// unlockPatience bounds an unlock. After it the connection is closed.
const unlockPatience = 5 * time.Second

// discard ends the connection, so that it does not go back to the pool with a lock.
func (h *Held) discard() {
	_ = h.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = h.conn.Close()
}

// Do holds a lock while fn runs. The context of fn ends when ctx does, and when the lock is lost.
func Do(ctx context.Context, db *sql.DB, key Key, opts *Options, fn func(ctx context.Context) error) (err error) {
	h, err := Lock(ctx, db, key, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Unlock(ctx)) }()
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.Context(), func() { cancel(context.Cause(h.Context())) })
	defer stop()
	return fn(held)
}
