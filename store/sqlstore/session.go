// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// session is one process's liveness: a row, and what this process must remember.
type session struct {
	store      *Store
	sid        string // its id in hexadecimal digits
	generation int64
	inc        int64 // the incarnation it was opened in
	ttl        time.Duration
	notices    notices
	server     atomic.Pointer[string] // {server} of the one that has the identity of the incarnation
	released   *releases

	mu     sync.Mutex
	claims map[uint64]string // those that may be in the store, for Close
	waits  map[uint64]*waiting
}

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if req.Shard != "0" {
		return nil, driver.Renewal{}, fmt.Errorf("sqlstore: no shard %q: %w", req.Shard, driver.ErrRefused)
	}
	if req.TTL < minTTL || req.TTL > s.opts.MaxTTL {
		return nil, driver.Renewal{}, fmt.Errorf("sqlstore: TTL %v is not within %v and %v; set max_ttl in the URL (Options.MaxTTL) to the longest TTL of any process: %w",
			req.TTL, minTTL, s.opts.MaxTTL, driver.ErrRefused)
	}
	if err := s.fit(ctx); err != nil {
		return nil, driver.Renewal{}, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, driver.Renewal{}, err
	}
	ss := &session{store: s, sid: req.ID.String(), ttl: req.TTL, claims: map[uint64]string{}, waits: map[uint64]*waiting{}, released: &releases{of: map[uint64]string{}}}
	ss.notices.init(req.Contended)
	s.memory.declare(req.TTL)
	for range maxRounds {
		m, err := s.incarnation(ctx, true)
		if errors.Is(err, errAutocommit) {
			err = fmt.Errorf("%w: %w", errAutocommit, driver.ErrRefused)
		}
		if err != nil {
			return nil, driver.Renewal{}, err
		}
		asked := s.memory.knows(m.inc)
		if asked.and(m.rules) != m.rules {
			if err := s.strengthen(ctx, m.inc, asked); err != nil {
				return nil, driver.Renewal{}, err
			}
			continue
		}
		fresh := rand.Int64N(1<<62) + 1
		ss.inc = m.inc
		ss.learnServer(m.server.String)
		ss.generation, err = s.open(ctx, ss, fresh, asked)
		if err != nil {
			return nil, driver.Renewal{}, err
		}
		if ss.generation == 0 {
			continue // the incarnation changed in between, or its settings
		}
		if before, ok := req.Before.(*session); ok && before.store == s && before.generation == ss.generation {
			ss.released = before.released
		}
		renewal := driver.Renewal{TTL: req.TTL}
		if ss.generation != fresh { // resumed: something of it may be broken
			if renewal.Broken, err = ss.brokenNow(ctx); err != nil {
				return nil, driver.Renewal{}, err
			}
		} else {
			s.waker.ended(ss.sid) // of the session before
		}
		s.sweeper.maybe()
		return ss, renewal, nil
	}
	return nil, driver.Renewal{}, errSplit
}

// open writes the row of a session and returns its generation; 0 if the incarnation is another, or has less than
// was asked for.
func (s *Store) open(ctx context.Context, ss *session, generation int64, asked rules) (int64, error) {
	us, declared := ss.ttl.Microseconds(), s.memory.asks().declared()
	if s.dialect == MySQL {
		res, err := s.exec(ctx, "open", ss.sid, generation, us, us, declared, ss.inc, asked.maxTTL, asked.grace)
		if err != nil {
			return 0, err
		}
		return res.LastInsertId()
	}
	var got int64
	err := s.row(ctx, "open", []any{ss.sid, generation, us, declared, ss.inc, asked.maxTTL, asked.grace}, []any{&got})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return got, err
}

// verdict returns an error unless the session may go on, by what was read.
func (ss *session) verdict(l *loaded) error {
	switch {
	case l.Inc != ss.inc:
		return ss.over(driver.ErrReset)
	case l.mine == nil || l.mine.generation != ss.generation || l.mine.ends <= l.Now:
		return ss.over(driver.ErrGone)
	}
	if ss.learnServer(l.server) {
		ss.settleSoon() // a crash may have been the reason
	}
	return nil
}

// learnServer notes the {server} that was read in one statement with the identity of the session's incarnation, and
// reports whether it was another one.
func (ss *session) learnServer(server string) bool {
	old := ss.server.Load()
	if old != nil && *old == server {
		return false
	}
	ss.server.Store(&server)
	return true
}

// over ends every wait: waiters must come back with the next session.
func (ss *session) over(why error) error {
	err := fmt.Errorf("sqlstore: session %s: %w", ss.sid, why)
	ss.notices.stop()
	ss.store.waker.ended(ss.sid)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, w := range ss.waits {
		w.end(err)
	}
	return err
}

// KeepAlive implements driver.Session: one statement on one row.
func (ss *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	ok, err := ss.keepAlive(ctx)
	if err != nil {
		return driver.Renewal{}, err
	}
	var broken []uint64
	if !ok {
		if broken, err = ss.brokenNow(ctx); err != nil {
			return driver.Renewal{}, err
		}
	}
	ss.settleSoon()
	ss.noticeAtRenewal(ctx)
	return driver.Renewal{TTL: ss.ttl, Broken: broken}, nil
}

// keepAlive runs the statement, and learns from its answer what the settings are. It is false if the
// session was not kept alive.
func (ss *session) keepAlive(ctx context.Context) (bool, error) {
	s := ss.store
	args := []any{ss.sid, ss.generation, ss.inc}
	var answer int64 // max_ttl, and grace as the last bit
	if s.dialect == MySQL {
		res, err := s.exec(ctx, "keepAlive", args...)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return false, err
		}
		if answer, err = res.LastInsertId(); err != nil {
			return false, err
		}
	} else {
		var server string
		if err := s.row(ctx, "keepAlive", args, []any{&answer, &server}); err != nil {
			return false, unlessNone(err)
		}
		ss.learnServer(server)
	}
	s.memory.learn(ss.inc, rules{answer & 1, answer >> 1})
	return true, nil
}

// brokenNow keeps the session alive by the slow path: it reads why the fast one did not,
// and which of its claims an operator has broken.
func (ss *session) brokenNow(ctx context.Context) ([]uint64, error) {
	for {
		l, err := ss.store.load(ctx, ss.sid, "")
		if err != nil {
			return nil, err
		}
		if err := ss.verdict(l); err != nil {
			return nil, err
		}
		var broken []uint64
		rest := hints{}
		for name, version := range readHints(l.mine.broken) {
			lock, err := ss.store.load(ctx, ss.sid, name)
			if err != nil {
				return nil, err
			}
			seqs := lock.BrokenOf(ss.sid)
			if len(seqs) > 0 || lock.pending(version) {
				rest[name] = version
			}
			broken = append(broken, seqs...)
		}
		slices.Sort(broken)
		if l.mine.broken == "" {
			if ok, err := ss.keepAlive(ctx); err != nil || ok {
				return nil, err
			}
			continue
		}
		left := sql.NullString{String: rest.text(), Valid: len(rest) > 0}
		n, err := ss.store.changed(ctx, "keepAliveBroken", left, ss.sid, ss.generation, ss.inc, l.mine.broken)
		if err != nil || n > 0 {
			return broken, err
		}
	}
}

// Attempt implements driver.Session. A plain claim for a free lock is one statement.
func (ss *session) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := ss.store.check(c.Name); err != nil {
		return driver.Outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, fmt.Errorf("sqlstore: attempt: %w", err)
	}
	claim, err := lockrow.NewClaim(ss.sid, ss.generation, c)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("sqlstore: %q: %w", c.Name, err)
	}
	ss.note(c)
	var w *waiting
	if c.Queue {
		known, _ := ss.store.recent.of(c.Name)
		w = ss.expect(c.Seq, listenAfter(known.place, known.pace) == 0)
		ss.mu.Lock()
		w.plain = claim.Plain == 1
		ss.mu.Unlock()
	}
	if w.seenQueued(ss) {
		if out, ok := ss.lastAnswer(w); ok {
			return out, nil
		}
		if out, waits, err := ss.waitsStill(ctx, c, w); waits || err != nil {
			return out, err
		}
	}
	if w.seenQueued(ss) || claim.Plain != 1 {
		return ss.attempt(ctx, c, claim, w)
	}
	out, done, err := ss.short(ctx, c, &claim, w)
	if !done && err == nil {
		out, err = ss.attempt(ctx, c, claim, w)
	}
	if err != nil && w.seenQueued(ss) {
		err = afterQueuing(err)
	}
	if err != nil && !errors.Is(err, driver.ErrUnknown) { // no withdrawal need follow
		ss.store.waker.gone(claimID{ss.sid, c.Seq})
	}
	return out, err
}

// waitsStill reports whether a claim is still queued behind a plain holder that lives, by one
// statement: nothing can be granted then, whatever became of the other sessions in the
// queue. Each waiting claim is attempted again once in a TTL.
func (ss *session) waitsStill(ctx context.Context, c *driver.Claim, w *waiting) (driver.Outcome, bool, error) {
	if err := ss.store.prepare(ctx); err != nil {
		return driver.Outcome{}, false, err
	}
	l, err := ss.store.loadShort(ctx, ss.sid, c.Name)
	if err != nil {
		return driver.Outcome{}, false, err
	}
	if err := ss.verdict(l); err != nil {
		return driver.Outcome{}, false, err
	}
	out, ok := l.Waiting(ss.sid, c.Seq)
	if !ok || l.Grants[0].Plain != 1 || l.graceLeapt() || l.leapt(l.Sessions[l.Grants[0].Session]) {
		return driver.Outcome{}, false, nil
	}
	ss.noteBefore(w, l.HandoffLocksBefore(ss.sid, c.Seq))
	ss.noteAttempt(w, out, l.Counter)
	return out, true, nil
}

// afterQueuing is the error of an attempt that queued the claim and failed then. No caller may
// take it for one that did nothing, unless the claim has ended with its session.
func afterQueuing(err error) error {
	if errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrReset) {
		return err
	}
	return fmt.Errorf("%w; the claim is queued: %w", err, driver.ErrUnknown)
}

// attempt goes the longer way.
func (ss *session) attempt(ctx context.Context, c *driver.Claim, claim lockrow.Claim, w *waiting) (driver.Outcome, error) {
	var out driver.Outcome
	var last *loaded
	err := ss.store.change(ctx, c.Name, ss, func(l *loaded) error {
		out, last = l.Attempt(claim, c.Queue), l
		return nil
	})
	if err != nil {
		return driver.Outcome{}, err
	}
	switch {
	case out.State == driver.Queued && w != nil:
		ss.queued(w, out.Position, last.Counter, 0)
		ss.noteBefore(w, last.HandoffLocksBefore(ss.sid, c.Seq))
	case out.State == driver.Granted:
		ss.stopWaiting(c.Seq)
	case out.State != driver.Queued:
		ss.drop(c.Seq)
	}
	return out, nil
}

// take returns the counter of a claim for a free lock that has its row, or 0.
func (ss *session) take(ctx context.Context, c *lockrow.Claim, name string) (int64, error) {
	s, server := ss.store, *ss.server.Load()
	if s.dialect == MySQL {
		return s.number(ctx, "take", int64(c.Seq), ss.generation, ss.inc, c.Record, ss.sid, s.name(name), server, ss.sid, ss.generation, ss.inc)
	}
	var counter int64
	err := s.row(ctx, "take", []any{name, ss.sid, int64(c.Seq), ss.generation, ss.inc, c.Record, server}, []any{&counter})
	return counter, unlessNone(err)
}

// takeOrMake is take for a lock that may have no row yet.
func (ss *session) takeOrMake(ctx context.Context, c *lockrow.Claim, name string) (int64, error) {
	s := ss.store
	if s.dialect == MySQL {
		return ss.takeOrMakeMySQL(ctx, c, name)
	}
	var counter int64
	err := s.row(ctx, "attempt", []any{name, ss.sid, int64(c.Seq), ss.generation, ss.inc, c.Record}, []any{&counter})
	return counter, unlessNone(err)
}

// notFree is what the statement takeOrTell returns for a lock that has its row and is not free.
const notFree = 1

// takeOrMakeMySQL needs a second statement for a lock that has no row. INSERT ON DUPLICATE KEY
// UPDATE alone would do, but it locks the incarnation before it waits for the lock's row:
// one row that a foreign transaction has locked, and a sweep, would stop every process.
func (ss *session) takeOrMakeMySQL(ctx context.Context, c *lockrow.Claim, name string) (int64, error) {
	s := ss.store
	counter, err := s.number(ctx, "takeOrTell", int64(c.Seq), ss.generation, ss.inc, c.Record, ss.sid, s.name(name), ss.sid, ss.generation, ss.inc)
	if err != nil || counter > notFree {
		return counter, err
	}
	if counter == notFree {
		return 0, nil
	}
	return s.number(ctx, "attempt", s.name(name), ss.sid, int64(c.Seq), ss.generation, c.Record, ss.inc, ss.sid, ss.generation)
}

// note notes a claim before it is sent: a notice may overtake the answer.
func (ss *session) note(c *driver.Claim) {
	ss.mu.Lock()
	ss.claims[c.Seq] = c.Name
	ss.mu.Unlock()
	if c.Watch {
		ss.watch(c)
	}
}

func (ss *session) drop(seq uint64) {
	ss.stopWaiting(seq)
	ss.mu.Lock()
	delete(ss.claims, seq)
	delete(ss.notices.watched, seq)
	ss.mu.Unlock()
	ss.store.waker.gone(claimID{ss.sid, seq})
}

// hints are the locks of a session that an operator may have broken, each with the
// version of its row when the operator read it. The column has one line of JSON for each.
//
//	operator:  read row, version 7 ──▶ hint (x, 7) ─────────────▶ write row: version 8, marked
//	session:                              keep-alive: x has version 7, no mark: the hint stays
//	                                                                 keep-alive: marked: reported
//
// Without the version the first keep-alive would take the hint for one that came to
// nothing and drop it, and the holder would never be notified.
type hints map[string]int64

// readHints reads the column. What cannot be read is left out: no session could act on it.
func readHints(column string) hints {
	h := hints{}
	for line := range strings.SplitSeq(column, "\n") {
		var name string
		var version int64
		if json.Unmarshal([]byte(line), &[]any{&name, &version}) == nil {
			h[name] = max(h[name], version)
		}
	}
	return h
}

// text is the column for hints, "" for none.
func (h hints) text() string {
	var lines []string
	for name, version := range h {
		line, _ := json.Marshal([]any{name, version}) // both always have a JSON form
		lines = append(lines, string(line)+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// pending reports whether the operator may still write the lock that was read at a version.
func (l *loaded) pending(version int64) bool { return l.exists && l.version <= version }

// hint makes the next keep-alives of a session check whether a lock was broken.
func (s *Store) hint(ctx context.Context, sid string, generation int64, name string, version int64) error {
	_, err := s.changed(ctx, "hint", hints{name: version}.text(), sid, generation)
	return err
}
