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
//	                                                                  └──▶ not heard: a pooler; poll
//
// A pooler in transaction mode takes LISTEN, and gives the connection to somebody else.
// Nothing but a message that arrives proves that messages arrive.
type hub struct {
	s      *Store
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // nil: not begun

	mu      sync.Mutex
	gen     int64 // counts connections
	deaf    bool  // listening does not work here
	members map[string]*member
	change  chan struct{} // closed when somebody's ears change
	stir    context.CancelFunc
}

// member is a session that waits for notifications.
type member struct {
	ss     *session
	asked  bool   // LISTEN was sent on this connection
	secret string // of its hello
	live   bool   // and heard
}

// helloWait is how long a notification of our own may take to arrive.
const helloWait = 2 * time.Second

func (h *hub) init(s *Store) {
	h.s, h.members, h.change = s, map[string]*member{}, make(chan struct{})
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.deaf = !s.listens()
}

// ears returns which connection listens for the session, 0 if none does, and a channel
// that is closed when that changes. The first call begins it.
func (h *hub) ears(ss *session) (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deaf || h.ctx.Err() != nil {
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
		return h.gen, h.change
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

func (h *hub) close() {
	h.cancel()
	h.mu.Lock()
	done := h.done
	h.mu.Unlock()
	if done != nil {
		<-done
	}
}

// changedLocked tells everybody to look at their ears.
func (h *hub) changedLocked() {
	close(h.change)
	h.change = make(chan struct{})
}

// errDeaf says that notifications do not arrive on this connection.
var errDeaf = errors.New("notifications do not arrive")

// run listens until the store is closed or listening turns out not to work.
func (h *hub) run() {
	defer close(h.done)
	for failures := 0; h.ctx.Err() == nil; failures++ {
		began := time.Now()
		err := h.connection()
		h.mu.Lock()
		h.deaf = h.deaf || errors.Is(err, errDeaf)
		deaf := h.deaf
		for _, m := range h.members {
			m.asked, m.live = false, false
		}
		h.changedLocked()
		h.mu.Unlock()
		if deaf {
			return
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
		return errDeaf // there is none to spare
	}
	conn, err := h.s.db.Conn(h.ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(dc any) error {
		c, ok := dc.(*stdlib.Conn)
		if !ok {
			return errDeaf
		}
		h.mu.Lock()
		h.gen++
		h.mu.Unlock()
		err := h.serve(c.Conn())
		// It has listened: nobody else may get it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Conn().Close(ctx)
		return err
	})
}

// serve sends LISTEN for whoever is new and takes notifications.
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
		stirred := ctx.Err() != nil // the wait was ended for somebody new
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
		m.live = true
		h.changedLocked()
	}
	h.mu.Unlock()
	seqText, counterText, _ := strings.Cut(n.Payload, " ")
	seq, err1 := strconv.ParseUint(seqText, 10, 64)
	counter, err2 := strconv.ParseInt(counterText, 10, 64)
	if m != nil && err1 == nil && err2 == nil {
		m.ss.pushed(seq, counter)
	}
	return nil
}
