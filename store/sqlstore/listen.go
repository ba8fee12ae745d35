// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// hub listens for notifications on one connection, for all sessions of a store. It
// begins when a claim first waits: a process that never waits never listens.
//
//	LISTEN channel ──▶ pg_notify(channel, hello) on another connection ──▶ heard? live
//	                                                                  └──▶ not heard: poll; try again in minutes
//
// A pooler in transaction mode takes LISTEN, and gives the connection to another client.
// Nothing but a message that arrives proves that messages arrive.
type hub struct {
	s      *Store
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // nil: not begun

	mu         sync.Mutex
	generation int64 // counts connections
	never      bool  // listening cannot work here
	deaf       bool  // the last greeting was not heard
	retry      time.Duration
	members    map[string]*member
	attended   map[string]*session // those whose notices a goroutine attends to, by id
	change     chan struct{}       // closed when the ears of a session change
	stir       context.CancelFunc
}

// member is a session that waits for notifications.
type member struct {
	ss     *session
	asked  bool   // LISTEN was sent on this connection
	secret string // of its hello
	live   bool   // and heard
}

// helloWait is how long a notification to ourselves may take to arrive.
const helloWait = 2 * time.Second

// deafFor is how long a store polls after a greeting that was not heard. It may have been
// a pooler, or a server that was slow for once.
const deafFor = 5 * time.Minute

func (h *hub) init(s *Store) {
	h.s, h.members, h.attended, h.change = s, map[string]*member{}, map[string]*session{}, make(chan struct{})
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.never, h.retry = !s.listens(), deafFor
}

// ears returns which connection listens for the session, 0 if none does, and a channel
// that is closed when that changes. The first call begins it.
func (h *hub) ears(ss *session) (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.never || h.ctx.Err() != nil {
		return 0, nil
	}
	m := h.members[ss.sid]
	if m == nil || m.ss != ss {
		m = &member{ss: ss}
		h.members[ss.sid] = m
		if h.stir != nil {
			h.stir()
		}
	}
	if h.done == nil {
		h.done = make(chan struct{})
		go h.run()
	}
	if m.live {
		return h.generation, h.change
	}
	return 0, h.change
}

func (h *hub) leave(ss *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.members[ss.sid]; m != nil && m.ss == ss {
		delete(h.members, ss.sid)
	}
}

// isDeaf reports whether listening should work here and does not.
func (h *hub) isDeaf() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deaf && !h.never
}

func (h *hub) close() {
	h.cancel()
	h.mu.Lock()
	done := h.done
	h.mu.Unlock()
	if done != nil {
		<-done
	}
}

// changedLocked makes every session read its ears again.
func (h *hub) changedLocked() {
	close(h.change)
	h.change = make(chan struct{})
}

// errDeaf means that notifications do not arrive on this connection, errNever that they
// cannot arrive on any connection.
var (
	errDeaf  = errors.New("notifications do not arrive")
	errNever = errors.New("no connection can listen")
	// errReserved: other stores keep the connections of the handle that can be spared.
	errReserved = errors.New("no connection to spare")
)

// run listens until the store is closed or listening turns out to be impossible.
func (h *hub) run() {
	defer close(h.done)
	for failures := 0; h.ctx.Err() == nil; failures++ {
		began := time.Now()
		err := h.connection()
		h.mu.Lock()
		deaf := errors.Is(err, errDeaf)
		h.deaf = h.deaf || deaf
		h.never = errors.Is(err, errNever) || deaf && h.s.pooled.Load()
		never := h.never
		for _, m := range h.members {
			m.asked, m.live = false, false
		}
		h.changedLocked()
		h.mu.Unlock()
		if never {
			return
		}
		if deaf {
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
func (h *hub) connection() error {
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
		h.mu.Lock()
		h.generation++
		h.mu.Unlock()
		err := h.serve(c.Conn())
		if errors.Is(err, errDeaf) && h.behindPooler(c.Conn().PgConn()) {
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
func (h *hub) behindPooler(c *pgconn.PgConn) bool {
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

// serve sends LISTEN for new sessions and takes notifications.
func (h *hub) serve(c *pgx.Conn) error {
	for {
		ctx, stir := context.WithCancel(h.ctx)
		h.mu.Lock()
		h.stir = stir
		var fresh []*member
		waiting := false
		for _, m := range h.members {
			if !m.asked {
				m.asked, m.secret = true, strconv.FormatUint(rand.Uint64(), 36)
				fresh = append(fresh, m)
			}
			waiting = waiting || !m.live
		}
		h.mu.Unlock()
		err := h.greet(c, fresh)
		for err == nil && ctx.Err() == nil {
			err = h.next(ctx, c, waiting)
			waiting = h.waiting()
		}
		stirred := ctx.Err() != nil // the wait was ended for a new session
		stir()
		if h.ctx.Err() != nil {
			return h.ctx.Err()
		}
		if err != nil && !stirred {
			return err
		}
	}
}

// greet listens for sessions, and sends each a message by another connection.
func (h *hub) greet(c *pgx.Conn, fresh []*member) error {
	for _, m := range fresh {
		ctx, cancel := context.WithTimeout(h.ctx, helloWait)
		channel := channelPrefix(h.s.opts.Prefix) + m.ss.sid
		_, err := c.PgConn().Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()).ReadAll()
		if err == nil {
			_, err = h.s.db.ExecContext(ctx, "SELECT pg_notify($1, $2)", h.s.args([]any{channel, "hello " + m.secret})...)
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *hub) waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.members {
		if m.asked && !m.live {
			return true
		}
	}
	return false
}

// next takes one notification. While a greeting is under way it waits only so long.
func (h *hub) next(ctx context.Context, c *pgx.Conn, greeting bool) error {
	if greeting {
		bounded, cancel := context.WithTimeout(ctx, helloWait)
		defer cancel()
		n, err := c.WaitForNotification(bounded)
		if err != nil && bounded.Err() == context.DeadlineExceeded && ctx.Err() == nil {
			return errDeaf
		}
		return h.take(n, err)
	}
	n, err := c.WaitForNotification(ctx)
	return h.take(n, err)
}

// take hands a notification to its session.
func (h *hub) take(n *pgconn.Notification, err error) error {
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	h.mu.Lock()
	m := h.members[strings.TrimPrefix(n.Channel, channelPrefix(h.s.opts.Prefix))]
	if m != nil && n.Payload == "hello "+m.secret {
		m.live, h.deaf = true, false
		h.changedLocked()
	}
	h.mu.Unlock()
	if m != nil {
		m.ss.heard(n.Payload)
	}
	return nil
}
