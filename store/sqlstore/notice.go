// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// wantedWord is in a message about a claim that others wait behind:
//
//	wanted SEQ            the first claim was queued behind the grant
//	SEQ COUNTER           the claim was granted
//	SEQ COUNTER wanted    the same, and others wait behind it already
const wantedWord = "wanted"

// notices is what a session knows of its claims that are watched.
type notices struct {
	wanted  func(seq uint64)
	watched map[uint64]string // names by claim; guarded by the session's mu
	first   chan struct{}     // a claim is watched, and none was before
	ended   chan struct{}     // the session is over
	stop    func()
}

func (n *notices) init(wanted func(uint64)) {
	n.wanted, n.watched, n.first, n.ended = wanted, map[uint64]string{}, make(chan struct{}, 1), make(chan struct{})
	n.stop = sync.OnceFunc(func() { close(n.ended) })
}

// watch notes a claim that is watched. The first one of a session makes the process listen.
func (ss *session) watch(c *driver.Claim) {
	if ss.notices.wanted == nil {
		return
	}
	ss.mu.Lock()
	first := len(ss.notices.watched) == 0
	ss.notices.watched[c.Seq] = c.Name
	ss.mu.Unlock()
	if !first || !ss.store.listens() {
		return
	}
	if ss.store.attendants.add(ss) {
		go ss.attend()
	}
	select {
	case ss.notices.first <- struct{}{}:
	default:
	}
}

// attend reads what waits behind the watched claims whenever messages may have been missed:
// while no connection listens again and again, and once after one began to.
func (ss *session) attend() {
	h := &ss.store.listener
	defer ss.store.attendants.remove(ss)
	defer h.leave(ss)
	var heard int64 // the connection whose messages miss nothing
	for ss.store.attendants.has(ss) {
		since, changed := h.since(ss)
		watches := ss.watches()
		if watches {
			since, changed = h.listen(ss)
		}
		if watches && (since == 0 || since != heard) {
			if ss.check(h.ctx) == nil {
				heard = since
			}
		}
		var again <-chan time.Time
		if (since == 0 || since != heard) && watches {
			again = time.After(longestPause)
		}
		select {
		case <-ss.notices.first:
		case <-changed:
		case <-again:
		case <-ss.notices.ended:
			return
		case <-h.ctx.Done():
			return
		}
	}
}

func (ss *session) watches() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.notices.watched) > 0
}

// noticeAtRenewal notifies where no process can listen. A failure is left to the next
// renewal, and a slow one must not make this one late.
func (ss *session) noticeAtRenewal(ctx context.Context) {
	if ss.store.listens() {
		return
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	_ = ss.check(ctx)
}

// check reads which of the watched claims are granted and waited for, and notifies the
// session. It costs a statement for some hundred watched claims.
func (ss *session) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ss.ttl/10)
	defer cancel()
	s := ss.store
	ss.mu.Lock()
	var names []string
	for _, name := range ss.notices.watched {
		names = append(names, name)
	}
	ss.mu.Unlock()
	slices.Sort(names)
	for part := range slices.Chunk(slices.Compact(names), manyAtOnce) {
		args := make([]any, len(part))
		for i, name := range part {
			args[i] = s.name(name)
		}
		var wanted []uint64
		text := "/* fencelock waited */ SELECT holder, seq, grants FROM " + s.opts.prefix() + "lock WHERE queue IS NOT NULL AND name IN (" + s.dialect.list(1, len(part)) + ")" + allRows
		err := s.rows(ctx, "notice", text, args, func() { wanted = nil }, func(r *sql.Rows) error {
			var holder, grants sql.NullString
			var seq sql.NullInt64
			err := r.Scan(&holder, &seq, &grants)
			wanted = append(wanted, granted(ss.sid, holder.String, uint64(seq.Int64), grants.String)...)
			return err
		})
		if err != nil {
			return err
		}
		for _, seq := range wanted {
			ss.notify(seq)
		}
	}
	return nil
}

// granted returns the claims of a session that a lock is granted to.
func granted(session, holder string, seq uint64, grants string) (seqs []uint64) {
	if holder == session {
		return []uint64{seq}
	}
	var list []lockrow.Claim
	if grants == "" || json.Unmarshal([]byte(grants), &list) != nil {
		return nil
	}
	for _, g := range list {
		if g.Session == session {
			seqs = append(seqs, g.Seq)
		}
	}
	return seqs
}

// notify notifies the session that a claim waits behind one of its claims, if that is watched.
func (ss *session) notify(seq uint64) {
	ss.mu.Lock()
	_, watched := ss.notices.watched[seq]
	ss.mu.Unlock()
	if watched {
		ss.notices.wanted(seq)
	}
}

// heard takes a message of the session's channel.
func (ss *session) heard(payload string) {
	words := strings.Split(payload, " ")
	if len(words) == 2 && words[0] == wantedWord {
		if seq, err := strconv.ParseUint(words[1], 10, 64); err == nil {
			ss.notify(seq)
		}
		return
	}
	if len(words) < 2 {
		return
	}
	seq, err1 := strconv.ParseUint(words[0], 10, 64)
	counter, err2 := strconv.ParseInt(words[1], 10, 64)
	if err1 != nil || err2 != nil {
		return // a greeting
	}
	ss.pushed(seq, counter)
	if len(words) == 3 && words[2] == wantedWord {
		ss.notify(seq)
	}
}

// attendants are the sessions whose notices a goroutine attends to, by id.
type attendants struct {
	mu sync.Mutex
	of map[string]*session
}

// add reports whether a goroutine must be started for the session. One for an earlier value
// of the session, which was opened again since, ends.
func (a *attendants) add(ss *session) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[ss.sid] == ss {
		return false
	}
	if a.of == nil {
		a.of = map[string]*session{}
	}
	a.of[ss.sid] = ss
	return true
}

func (a *attendants) has(ss *session) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[ss.sid] == ss
}

func (a *attendants) remove(ss *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[ss.sid] == ss {
		delete(a.of, ss.sid)
	}
}
