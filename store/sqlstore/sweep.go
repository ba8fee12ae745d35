// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// sweeper removes what is not needed any more: rows of locks that are free, and of
// sessions whose process died. Processes that open sessions or give locks back do it, a
// bounded part at a time; keep-alives never do.
type sweeper struct {
	s       *Store
	ctx     context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup
	busy    atomic.Bool
	removed atomic.Int64 // withdrawals since the last sweep
	last    atomic.Int64 // when it was, in Unix nanoseconds
	cursor  string       // of the goroutine that set busy
	begun   bool         // cursor is where the last sweep ended; of the same goroutine
}

const (
	// sweepEvery is how often a process sweeps at most, sweepAfter how many locks it
	// gives back at least before it does.
	sweepEvery = time.Minute
	sweepAfter = 200
	// idleFor is how long a free lock keeps its row: making it again costs more than
	// finding it.
	idleFor = time.Minute
	// window is how many rows one statement reads.
	window = 500
)

func (w *sweeper) init(s *Store) {
	w.s = s
	w.ctx, w.cancel = context.WithCancel(context.Background())
}

func (w *sweeper) close() {
	w.cancel()
	w.working.Wait()
}

// count notes that a lock was given back.
func (w *sweeper) count() {
	if w.removed.Add(1) >= sweepAfter {
		w.maybe()
	}
}

// maybe sweeps in the background if it is time.
func (w *sweeper) maybe() {
	if time.Since(time.Unix(0, w.last.Load())) < sweepEvery || w.ctx.Err() != nil || w.busy.Swap(true) {
		return
	}
	w.last.Store(time.Now().UnixNano())
	w.removed.Store(0)
	w.working.Go(func() {
		defer w.busy.Store(false)
		ctx, cancel := context.WithTimeout(w.ctx, sweepEvery/2)
		defer cancel()
		// A failed sweep is made up for by the next, of whatever process.
		_ = w.s.sweepSessions(ctx)
		w.locks(ctx)
	})
}

// locks sweeps one window of rows, and more as long as a good part of them goes. The first sweep of a process begins anywhere, and looks
// into other windows, too: processes that live for one lock would otherwise all read the first one, and if the rows in it are in
// use, those behind it would stay, and grow with every name.
func (w *sweeper) locks(ctx context.Context) {
	others := 0
	if !w.begun {
		w.cursor, w.begun, others = nearby(""), true, 2
	}
	for {
		seen, gone, err := w.s.sweepLocks(ctx, &w.cursor, idleFor)
		switch {
		case err != nil:
			return
		case seen < window:
			w.cursor = ""
			return
		case gone*4 >= seen: // go on behind them
		case others > 0:
			others--
			w.cursor = nearby(w.cursor)
		default:
			return
		}
	}
}

// nearby returns a part of a name with one more character, which may be one that the name has.
func nearby(name string) string {
	all := []rune(name)
	more := rune(' ' + rand.IntN('~'-' '+1))
	if len(all) > 0 && rand.IntN(2) == 0 {
		more = all[rand.IntN(len(all))]
	}
	return string(append(all[:rand.IntN(len(all)+1)], more))
}

// sweepSessions removes sessions that ended long ago, and corrects ends that a clock has left
// too far ahead.
func (s *Store) sweepSessions(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	type dead struct {
		id         string
		generation int64
		ahead      bool
	}
	var found []dead
	err := s.rows(ctx, "ended", s.texts["ended"], []any{s.opts.MaxTTL.Microseconds(), manyAtOnce}, func() { found = nil }, func(r *sql.Rows) error {
		var d dead
		err := r.Scan(&d.id, &d.generation, &d.ahead)
		found = append(found, d)
		return err
	})
	for _, d := range found {
		statement := "endSession"
		if d.ahead {
			statement = "correctSession"
		}
		if err == nil {
			_, err = s.changed(ctx, statement, d.id, d.generation)
		}
	}
	return err
}

// listed is one row of a listing.
type listed struct {
	name         string
	now, touched int64
	fields       rowFields
}

func (l *listed) free() bool {
	f := &l.fields
	return !f.holder.Valid && !f.grants.Valid && !f.queue.Valid && !f.marks.Valid
}

// locks reads rows in the order of their names, with the statement "from" or "after".
func (s *Store) locks(ctx context.Context, statement, name string, n int) (found []listed, err error) {
	if name == "" && s.dialect == MySQL { // no name is before it, and an empty string may be null
		statement, name = "from", "\x00"
	}
	err = s.rows(ctx, statement, s.texts[statement], []any{s.name(name), n}, func() { found = nil }, func(r *sql.Rows) error {
		var l listed
		var name []byte
		err := r.Scan(append([]any{&name, &l.now, &l.touched}, l.fields.fields()...)...)
		l.name = string(name)
		found = append(found, l)
		return err
	})
	return found, err
}

// sweepLocks reads the next window of rows, removes what is free for longer than idle,
// and frees what a dead session had; a later sweep removes that. It returns how many rows it
// read, and how many it removed.
func (s *Store) sweepLocks(ctx context.Context, cursor *string, idle time.Duration) (seen, gone int, err error) {
	rows, err := s.locks(ctx, "after", *cursor, window)
	if err != nil || len(rows) == 0 {
		*cursor = ""
		return 0, 0, err
	}
	*cursor = rows[len(rows)-1].name
	var free []string
	var top int64
	var holders []string
	for _, l := range rows {
		if l.free() && !l.fields.lim.Valid && l.touched < l.now-idle.Microseconds() {
			free = append(free, l.name)
			top = max(top, l.fields.counter.Int64)
		}
		if l.fields.holder.Valid {
			holders = append(holders, l.fields.holder.String)
		}
	}
	slices.Sort(holders)
	alive := map[string]lockrow.Session{}
	if err := s.sessions(ctx, slices.Compact(holders), alive); err != nil {
		return len(rows), 0, err
	}
	for _, l := range rows {
		_, lives := alive[l.fields.holder.String]
		if !l.free() && !lives && l.touched < l.now-idle.Microseconds() {
			if _, err := s.Inspect(ctx, l.name); err != nil { // it frees the lock
				return len(rows), gone, err
			}
		}
	}
	if len(free) == 0 {
		return len(rows), 0, nil
	}
	// The floor first, and committed: a statement that makes one of these rows again reads it
	// under a lock, and begins above.
	if _, err := s.changed(ctx, "raiseFloor", top, top); err != nil {
		return len(rows), 0, err
	}
	for part := range slices.Chunk(free, manyAtOnce) {
		for _, name := range part {
			n, err := s.changed(ctx, "sweep", s.name(name))
			if err != nil {
				return len(rows), gone, err
			}
			gone += int(n)
		}
	}
	return len(rows), gone, nil
}
