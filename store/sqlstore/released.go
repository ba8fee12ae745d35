// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/fencelock/fencelock/driver"
)

// releases are claims that a session gave back on PostgreSQL by the statement unlock, whose commit does not
// wait for the disk. A crash of the server can undo the last of them: the row names a holder again that does not
// know of it, and whose session goes on. So the session remembers each release until it is known to be on disk.
//
//	unlock x        x is free, not durable, and remembered
//	crash           x names the claim again
//	settle          finds it, and withdraws it; this commit waits for the disk
//	settle          does not find it, and waits for the disk: x is forgotten
//
// An operator may break the claim that came back before it is found. Nobody else would withdraw it then, so it is found broken, too. Close ends
// the session by a statement that finds the same.
//
// Nothing else can go wrong: the log has an order, so the commit of whoever acquires the lock next makes the release durable, too.
//
// No sign of a crash is needed. There is none that always shows: when a backend crashes the postmaster
// starts the others again, loses what was not written, and keeps the time of its own start.
type releases struct {
	mu       sync.Mutex
	of       map[uint64]string // names by claim
	settling bool
}

const (
	// settleAt is after how many releases they are settled without waiting for a keep-alive.
	settleAt = manyAtOnce
	// maxReleased bounds what is remembered. Beyond it releases wait for the disk.
	maxReleased = 2 * settleAt
)

// room reports whether the release of one more lock can be remembered.
func (r *releases) room(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of) < maxReleased && plainInJSON(name)
}

// plainInJSON reports whether JSON has a name without escapes beyond ASCII. Go escapes bytes that are not UTF-8, and two separators. A database
// whose encoding is not UTF-8 takes the bytes, but rejects the escapes: no release could be settled in one list with such a name.
func plainInJSON(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsAny(name, "\u2028\u2029")
}

// add remembers a release, and reports whether there are many.
func (r *releases) add(w driver.Withdrawal) (many bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[w.Seq] = w.Name
	return len(r.of) >= settleAt
}

// begin returns what is to be settled, nil if there is nothing or another goroutine is at it.
func (r *releases) begin() map[uint64]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settling || len(r.of) == 0 {
		return nil
	}
	r.settling = true
	return maps.Clone(r.of)
}

// all returns what is remembered.
func (r *releases) all() map[uint64]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.of)
}

// end forgets what is settled.
func (r *releases) end(settled map[uint64]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settling = false
	for seq := range settled {
		delete(r.of, seq)
	}
}

// settleSoon settles the releases in the background: a keep-alive must not wait for the table of locks.
// What fails is left to the next keep-alive.
func (ss *session) settleSoon() {
	w := &ss.store.sweeper
	if w.ctx.Err() != nil {
		return
	}
	if list := ss.released.begin(); list != nil {
		w.working.Go(func() {
			ctx, cancel := context.WithTimeout(w.ctx, ss.ttl/3)
			defer cancel()
			ss.released.end(ss.settle(ctx, list))
		})
	}
}

// settle returns which of the releases are on disk for good. Those that were undone it withdraws again; they stay
// remembered, and the next call finds out what became of them.
func (ss *session) settle(ctx context.Context, list map[uint64]string) map[uint64]string {
	undone, err := ss.undone(ctx, "settle", list)
	if err != nil {
		return nil
	}
	for _, seq := range undone {
		_ = ss.store.change(ctx, list[seq], ss, func(l *loaded) error {
			l.Withdraw(ss.sid, ss.generation, driver.Withdrawal{Seq: seq, Name: list[seq]})
			return nil
		})
	}
	maps.DeleteFunc(list, func(seq uint64, _ string) bool { return slices.Contains(undone, seq) })
	return list
}

// undone runs a statement that returns which of the releases a crash has undone. It returns sql.ErrNoRows without a session.
func (ss *session) undone(ctx context.Context, statement string, list map[uint64]string) (seqs []uint64, err error) {
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	var found sql.NullString
	err = ss.store.row(ctx, statement, []any{ss.sid, ss.generation, ss.inc, string(text)}, []any{&found})
	if err == nil && found.Valid {
		err = json.Unmarshal([]byte(found.String), &seqs)
	}
	return seqs, err
}

// end ends the session in the store. It returns the locks whose release a crash has undone: claims may wait behind them.
func (ss *session) end(ctx context.Context) (names []string, err error) {
	if ss.store.dialect == MySQL {
		_, err := ss.store.changed(ctx, "closeSession", ss.sid, ss.generation, ss.inc)
		return nil, err
	}
	list := ss.released.all()
	seqs, err := ss.undone(ctx, "closeSession", list)
	for _, seq := range seqs {
		names = append(names, list[seq])
	}
	return names, unlessNone(err)
}
