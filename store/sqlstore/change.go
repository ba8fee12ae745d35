// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// change reads a lock, lets decide change it, and writes it back. If another process has
// written the row in between, change starts again, one writer after the other: of
// several concurrent writers one always succeeds, and no row is locked while decide runs.
//
//	read row, sessions ──▶ decide (pure) ──▶ UPDATE ... WHERE version = the one read
//	        ▲                                      │ no row: another was faster
//	        └──────────────────────────────────────┘
//
// A transaction that locks the row from the read to the write was rejected: a process
// that is stopped in between would stop all others that want the lock. who is the
// session of the caller, or nil.
func (s *Store) change(ctx context.Context, name string, who *session, decide func(*loaded) error) error {
	if err := s.check(name); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	taken := false // once in a call: lost starts again when the row was swept
	for lost := 0; ; lost++ {
		if lost == 1 && !taken {
			taken = true
			defer s.retries.wait(ctx, name)()
		}
		if lost > 1 && !pause(ctx, afterLost(lost)) {
			return fmt.Errorf("sqlstore: %q: %w", name, ctx.Err())
		}
		var sid string
		if who != nil {
			sid = who.sid
		}
		l, err := s.load(ctx, sid, name)
		if err != nil {
			return err
		}
		if who != nil {
			if err := who.verdict(l); err != nil {
				return err
			}
		}
		before := clone(l.Lock)
		if err := decide(l); err != nil {
			return err
		}
		if same(before, l.Lock) {
			return nil
		}
		if !l.exists {
			if _, err := s.changed(ctx, "make", s.name(name)); err != nil {
				return err
			}
			lost = -1
			continue // with a row to write to
		}
		if ok, err := s.write(ctx, name, who, l, l.Notices(before)); err != nil || ok {
			return err
		}
	}
}

// afterLost is how long a writer waits that was too late so often: writers of other
// processes read the row at the same moment otherwise.
func afterLost(lost int) time.Duration { return rand.N(time.Millisecond << min(lost, 6)) }

func clone(l *lockrow.Lock) *lockrow.Lock {
	c := *l
	c.Grants = append([]lockrow.Claim(nil), l.Grants...)
	c.Queue = append([]lockrow.Claim(nil), l.Queue...)
	c.Marks = append([]lockrow.Mark(nil), l.Marks...)
	return &c
}

func same(a, b *lockrow.Lock) bool {
	return a.Counter == b.Counter && a.Limit == b.Limit && a.Reclaimed == b.Reclaimed &&
		alike(a.Grants, b.Grants) && alike(a.Queue, b.Queue) && alike(a.Marks, b.Marks)
}

func alike[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// write writes a lock back; false if another process has written it since.
func (s *Store) write(ctx context.Context, name string, who *session, l *loaded, notices []lockrow.Push) (bool, error) {
	r, err := l.Encode()
	if err != nil {
		return false, fmt.Errorf("sqlstore: %q: %w", name, err)
	}
	text := func(v string) sql.NullString { return sql.NullString{String: v, Valid: v != ""} }
	held := func(v int64) sql.NullInt64 { return sql.NullInt64{Int64: v, Valid: r.Holder != ""} }
	args := []any{
		r.Counter, sql.NullInt64{Int64: r.Limit, Valid: r.Limit != 0}, r.Reclaimed,
		text(r.Holder), held(r.Seq), held(r.Generation), held(r.Inc), held(r.Since), text(r.Record),
		text(r.Grants), text(r.Queue), text(r.Marks), s.name(name), l.version, l.Inc,
	}
	statement := "write"
	if who != nil {
		statement = "writeFor"
		args = append(args, who.sid, who.generation)
	}
	if len(l.Pushes)+len(notices) > 0 && s.notifies() {
		n, err := s.changed(ctx, statement+loudly, append(slices.Clone(args), s.notifications(l.Pushes, notices))...)
		if code(err) != queueFull {
			return n > 0, err
		}
	}
	n, err := s.changed(ctx, statement, args...)
	return n > 0, err
}

// notifications are channels and payloads, in JSON.
func (s *Store) notifications(pushes, notices []lockrow.Push) string {
	var list [][2]string
	add := func(session, payload string) {
		list = append(list, [2]string{channelPrefix(s.opts.prefix()) + session, payload})
	}
	for _, p := range pushes {
		add(p.Session, strconv.FormatUint(p.Seq, 10)+" "+strconv.FormatInt(p.Counter, 10))
	}
	for _, n := range notices {
		add(n.Session, wantedWord+" "+strconv.FormatUint(n.Seq, 10))
	}
	text, _ := json.Marshal(list) // strings always have a JSON form
	return string(text)
}

// Inspect implements driver.Store. As List and Break it sets up nothing.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	var st driver.Status
	err := s.change(ctx, name, nil, func(l *loaded) error {
		l.Refresh()
		st = l.Status(name)
		return nil
	})
	if errors.Is(err, errVacant) {
		return driver.Status{Name: name}, nil
	}
	return st, err
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit int64) error {
	if limit < 0 {
		return fmt.Errorf("sqlstore: limit %d is below 0: %w", limit, driver.ErrRefused)
	}
	set := func() error {
		return s.change(ctx, name, nil, func(l *loaded) error {
			l.Limit = limit
			l.Refresh()
			return nil
		})
	}
	err := set()
	if errors.Is(err, errVacant) { // the limit must be kept, so the tables are set up
		if _, err = s.incarnation(ctx, true); err == nil {
			err = set()
		}
	}
	return err
}

// Break implements driver.Store. The sessions are notified first that a claim of theirs
// may be broken: they look it up in the lock's row, so a hint that comes to nothing
// does no harm, and no transaction has to join two tables.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (fence driver.Token, err error) {
	err = s.change(ctx, name, nil, func(l *loaded) error {
		l.Refresh()
		for _, c := range l.Holding(token) {
			if err := s.hint(ctx, c.Session, c.Generation, name, l.version); err != nil {
				return err
			}
		}
		var found bool
		if fence, found = l.Break(token); !found {
			return fmt.Errorf("sqlstore: %q with token %v: %w", name, token, driver.ErrNotHeld)
		}
		return nil
	})
	if errors.Is(err, errVacant) {
		err = fmt.Errorf("sqlstore: %q with token %v: %w", name, token, driver.ErrNotHeld)
	}
	return fence, err
}
