// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"sync"

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

// room reports whether one more can be remembered.
func (r *releases) room() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of) < maxReleased
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
	var found sql.NullString
	var undone []uint64
	text, err := json.Marshal(list)
	if err == nil {
		err = ss.store.row(ctx, "settle", []any{ss.sid, ss.generation, ss.inc, string(text)}, []any{&found})
	}
	if err == nil && found.Valid {
		err = json.Unmarshal([]byte(found.String), &undone)
	}
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
