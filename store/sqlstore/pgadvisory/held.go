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
	case cause != nil:
		h.discard()
		return cause
	}
	h.cancel(errReleased)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockPatience)
	defer cancel()
	query, args := "SELECT pg_advisory_unlock($1::bigint)", []any{h.key.whole}
	if h.key.pair {
		query, args = "SELECT pg_advisory_unlock($1::int4, $2::int4)", []any{h.key.first, h.key.second}
	}
	var had bool
	if err := h.conn.QueryRowContext(ctx, query+", set_config('"+marks+"', '', false)", args...).Scan(&had, new(string)); err != nil || !had {
		h.discard()
		return errors.Join(ErrLost, err)
	}
	return h.conn.Close()
}

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
