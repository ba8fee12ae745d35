// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// errSilent means that notifications do not arrive on this connection, errNever that they
// cannot arrive on any connection.
var (
	errSilent = errors.New("notifications do not arrive")
	errNever  = errors.New("no connection can listen")
	// errReserved: other stores keep the connections of the handle that can be spared.
	errReserved = errors.New("no connection to spare")
	// errIdle: no claim waits any more.
	errIdle = errors.New("no claim waits")
)

// run listens until the store is closed, no claim waits any more, or listening turns out to
// be impossible.
func (h *listener) run(done chan struct{}) {
	defer close(done)
	for failures := 0; h.ctx.Err() == nil; failures++ {
		began := time.Now()
		err := h.connection()
		h.mu.Lock()
		silent := errors.Is(err, errSilent)
		h.silent = h.silent || silent
		h.never = errors.Is(err, errNever) || silent && h.s.pooled.Load()
		h.proved = false
		for _, m := range h.members {
			m.asked, m.since = false, 0
		}
		h.changedLocked()
		over := h.never || errors.Is(err, errIdle) && h.idleLocked()
		if over {
			h.done = nil
		}
		h.mu.Unlock()
		if over {
			return
		}
		if silent {
			pause(h.ctx, h.retry)
			continue
		}
		if time.Since(began) > 10*time.Second {
			failures = 0
		}
		pause(h.ctx, time.Duration(rand.Int64N(int64(50*time.Millisecond)<<min(failures, 6))))
	}
}

// connection listens on one connection until it breaks.
func (h *listener) connection() error {
	if h.s.db.Stats().MaxOpenConnections == 1 {
		return errNever // no connection to spare
	}
	if !reserve(h.s.db) {
		return errReserved
	}
	defer unreserve(h.s.db)
	conn, err := h.s.db.Conn(h.ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(dc any) error {
		c, ok := dc.(*stdlib.Conn)
		if !ok {
			return errNever
		}
		err := h.serve(c.Conn())
		if errors.Is(err, errSilent) && h.behindPooler(c.Conn().PgConn()) {
			h.s.pooled.Store(true)
		}
		// It has listened: no other client may get it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Conn().Close(ctx)
		return err
	})
}

// behindPooler reports whether statements on this connection reach another process of the
// server than the one that the connection was greeted by, or two different ones. pgbouncer
// since 1.21 keeps prepared statements apart by itself, so nothing else shows it.
func (h *listener) behindPooler(c *pgconn.PgConn) bool {
	ctx, cancel := context.WithTimeout(h.ctx, helloWait)
	defer cancel()
	greeted := strconv.FormatUint(uint64(c.PID()), 10)
	for range 2 {
		results, err := c.Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
		if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
			return false
		}
		if string(results[0].Rows[0][0]) != greeted {
			return true
		}
	}
	return false
}

// serve sends LISTEN and UNLISTEN for sessions and takes notifications.
func (h *listener) serve(c *pgx.Conn) error {
	for {
		ctx, rescan := context.WithCancel(h.ctx)
		h.mu.Lock()
		h.rescan = rescan
		paused, fresh := h.dueLocked()
		h.mu.Unlock()
		err := h.unlisten(c, paused)
		if err == nil {
			err = h.greet(c, fresh)
		}
		if err != nil { // not because of a rescan: a member that was not greeted would seem silent
			rescan()
			return err
		}
		for waiting := h.waiting(); err == nil && ctx.Err() == nil; waiting = h.waiting() {
			err = h.next(ctx, c, waiting)
		}
		rescanned := ctx.Err() != nil // the wait was ended for a session
		rescan()
		if h.ctx.Err() != nil {
			return h.ctx.Err()
		}
		if err != nil && !rescanned {
			return err
		}
	}
}

// dueLocked returns for which sessions to stop and to begin listening. While the connection
// listens for one session, it is woken for every notification, so it may listen for those
// that are paused, too.
func (h *listener) dueLocked() (paused, fresh []*member) {
	allPaused := true
	for _, m := range h.members {
		allPaused = allPaused && m.paused
	}
	for sid, m := range h.members {
		switch {
		case m.paused && m.asked && (allPaused || m.gone):
			m.asked, m.since = false, 0
			paused = append(paused, m)
		case !m.paused && !m.asked:
			m.asked, m.secret = true, strconv.FormatUint(rand.Uint64(), 36)
			fresh = append(fresh, m)
		}
		if m.gone {
			delete(h.members, sid)
		}
	}
	if len(paused) > 0 { // a claim may wait for a push since its session was found to be paused
		h.changedLocked()
	}
	return paused, fresh
}

// channel is a session's, quoted.
func (h *listener) channel(m *member) string { return channelPrefix(h.s.opts.prefix()) + m.ss.sid }

// on sends a statement on the connection that listens.
func (h *listener) on(c *pgx.Conn, statement string) error {
	ctx, cancel := context.WithTimeout(h.ctx, helloWait)
	defer cancel()
	_, err := c.PgConn().Exec(ctx, statement).ReadAll()
	return err
}

func (h *listener) unlisten(c *pgx.Conn, paused []*member) error {
	for _, m := range paused {
		if err := h.on(c, "UNLISTEN "+pgx.Identifier{h.channel(m)}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

// greet listens for sessions. On a connection on which nothing was heard yet, it sends each a
// message by another connection.
func (h *listener) greet(c *pgx.Conn, fresh []*member) error {
	for _, m := range fresh {
		if err := h.on(c, "LISTEN "+pgx.Identifier{h.channel(m)}.Sanitize()); err != nil {
			return err
		}
		h.mu.Lock()
		proved := h.proved
		if proved {
			h.listensLocked(m)
		}
		h.mu.Unlock()
		if proved {
			continue
		}
		ctx, cancel := context.WithTimeout(h.ctx, helloWait)
		_, err := h.s.db.ExecContext(ctx, "SELECT pg_notify($1, $2)", h.s.args([]any{h.channel(m), "hello " + m.secret})...)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *listener) waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.members {
		if m.asked && m.since == 0 {
			return true
		}
	}
	return false
}

// next takes one notification. While a greeting is under way it waits only so long, and
// otherwise until no claim waits any more.
func (h *listener) next(ctx context.Context, c *pgx.Conn, greeting bool) error {
	if greeting {
		bounded, cancel := context.WithTimeout(ctx, helloWait)
		defer cancel()
		n, err := c.WaitForNotification(bounded)
		if err != nil && bounded.Err() == context.DeadlineExceeded && ctx.Err() == nil {
			return errSilent
		}
		return h.take(n, err)
	}
	bounded, cancel := context.WithTimeout(ctx, h.idle)
	defer cancel()
	n, err := c.WaitForNotification(bounded)
	if err != nil && bounded.Err() == context.DeadlineExceeded && ctx.Err() == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.idleLocked() {
			return errIdle
		}
		return nil
	}
	return h.take(n, err)
}

// take hands a notification to its session.
func (h *listener) take(n *pgconn.Notification, err error) error {
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	h.mu.Lock()
	m := h.members[strings.TrimPrefix(n.Channel, channelPrefix(h.s.opts.prefix()))]
	if m != nil && m.asked && n.Payload == "hello "+m.secret {
		h.proved, h.silent = true, false
		h.listensLocked(m)
	}
	h.mu.Unlock()
	if m != nil {
		m.ss.heard(n.Payload)
	}
	return nil
}
