// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
	"github.com/jackc/pgx/v5/stdlib"
)

// Sweep removes all that can be removed, without waiting for it to be old.
func Sweep(ctx context.Context, s *Store) error {
	if err := s.sweepSessions(ctx); err != nil {
		return err
	}
	cursor := ""
	_, _, err := s.sweepLocks(ctx, &cursor, 0)
	return err
}

// AwaitSweep waits for the sweep that began with the first session. The next one is a minute later.
func AwaitSweep(s *Store) { s.sweeper.working.Wait() }

// SweepFirst is the first sweep of a process, to its end.
func SweepFirst(ctx context.Context, s *Store) error {
	err := s.sweepSessions(ctx)
	s.sweeper.locks(ctx)
	return err
}

// RetryListening makes a store that heard nothing try again soon.
func RetryListening(s *Store, after time.Duration) { s.listener.retry = after }

// BehindPooler reports what the listener of a store that hears nothing would find out about a
// connection.
func BehindPooler(ctx context.Context, s *Store) (found bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		found = s.listener.behindPooler(c.(*stdlib.Conn).Conn().PgConn())
		return nil
	})
	return found, err
}

// EndSessionsTooEarly reads a lock, and ends its sessions as if the clock had been ahead by so
// much when it was read, and was set back then. It reports whether what was read may be used.
func EndSessionsTooEarly(ctx context.Context, s *Store, name string, ahead time.Duration) (bool, error) {
	l, err := s.loadShort(ctx, "", name)
	if err != nil {
		return false, err
	}
	l.Now += ahead.Microseconds()
	return s.endSessions(ctx, l.State)
}

// Reserved returns on how many connections of a handle claims wait.
func Reserved(db *sql.DB) int {
	reserved.Lock()
	defer reserved.Unlock()
	return reserved.of[db]
}

// Attended returns how many sessions have a goroutine that reads what waits for them.
func Attended(s *Store) int {
	s.attendants.mu.Lock()
	defer s.attendants.mu.Unlock()
	return len(s.attendants.of)
}

// Listening returns for how many sessions messages are known to arrive.
func Listening(s *Store) (n int) {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	for _, m := range s.listener.members {
		if m.since != 0 {
			n++
		}
	}
	return n
}

// ListensAs reports whether messages are known to arrive for this value of a session.
func ListensAs(s *Store, ss driver.Session) bool {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	m := s.listener.members[ss.(*session).sid]
	return m != nil && m.ss == ss && m.since != 0
}

// StopListeningSoon makes a store stop listening soon after the last claim waited.
func StopListeningSoon(s *Store, after time.Duration) { s.listener.idle = after }

// SetPace makes a store expect that a claim for the lock is queued behind so many others, and
// that each of them takes so long.
func SetPace(s *Store, name string, place int, pace time.Duration) {
	s.recent.queued(name, place)
	s.recent.granted(name, 0, pace)
}

// Listens reports whether a store listens for a session, or is about to.
func Listens(s *Store, ss driver.Session) bool {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	m := s.listener.members[ss.(*session).sid]
	return m != nil && !m.paused
}

// Members returns how many sessions a store listens for, or will after a reconnect.
func Members(s *Store) int {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	return len(s.listener.members)
}

// Rescan makes the goroutine that listens read for which sessions it has to.
func Rescan(s *Store) {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	s.listener.rescanLocked()
}

// ChangeLimit changes the limit of a lock, and calls before with the number of writers that
// try again before each write.
func ChangeLimit(ctx context.Context, s *Store, name string, limit int64, before func(retrying int)) error {
	return s.change(ctx, name, nil, func(l *loaded) error {
		s.retries.mu.Lock()
		users := 0
		if one := s.retries.of[name]; one != nil {
			users = one.users
		}
		s.retries.mu.Unlock()
		before(users)
		l.Limit = limit
		return nil
	})
}

// MakeHandoffLock waits until a store has an idle handoff lock.
func MakeHandoffLock(ctx context.Context, s *Store) error {
	for ctx.Err() == nil {
		if bl := s.handoffLocks.get(ctx); bl != nil {
			s.handoffLocks.mu.Lock()
			s.handoffLocks.putBackLocked(bl)
			s.handoffLocks.mu.Unlock()
			return nil
		}
		pause(ctx, 10*time.Millisecond)
	}
	return ctx.Err()
}

// TryHandoffLock lets a store make its first handoff lock, and reports whether it could. It makes no other.
func TryHandoffLock(ctx context.Context, s *Store) bool {
	bl := s.handoffLocks.get(ctx)
	s.handoffLocks.mu.Lock()
	defer s.handoffLocks.mu.Unlock()
	for bl == nil && s.handoffLocks.all > len(s.handoffLocks.idle) {
		s.handoffLocks.mu.Unlock()
		pause(ctx, time.Millisecond)
		s.handoffLocks.mu.Lock()
	}
	if bl != nil {
		s.handoffLocks.putBackLocked(bl)
	}
	s.handoffLocks.after = time.Now().Add(time.Hour)
	return s.handoffLocks.all > 0
}

// ForgiveHandoffLocks lets a store make a handoff lock although one has failed a moment ago.
func ForgiveHandoffLocks(s *Store) {
	s.handoffLocks.mu.Lock()
	defer s.handoffLocks.mu.Unlock()
	s.handoffLocks.after = time.Time{}
}

// LostHandoffLocks returns how many claims have lost their handoff lock and got no other one.
func LostHandoffLocks(s *Store) int {
	s.handoffLocks.mu.Lock()
	defer s.handoffLocks.mu.Unlock()
	return len(s.handoffLocks.lost)
}

// HandoffLockOf returns the named lock of a claim as the server knows it, or "".
func HandoffLockOf(ss driver.Session, seq uint64) string {
	own := ss.(*session)
	id := own.store.handoffLocks.of(claimID{own.sid, seq})
	if id == 0 {
		return ""
	}
	return handoffLockName(id)
}

// Handoff locks returns how many handoff locks a store has.
func HandoffLocks(s *Store) int {
	s.handoffLocks.mu.Lock()
	defer s.handoffLocks.mu.Unlock()
	return s.handoffLocks.all
}

// twoHandoffLocks takes two handoff locks of a store out; false if it has none to spare yet.
func twoHandoffLocks(ctx context.Context, s *Store) (one, two *handoffLock, ok bool) {
	one, two = s.handoffLocks.get(ctx), s.handoffLocks.get(ctx)
	if one != nil && two != nil {
		return one, two, true
	}
	s.handoffLocks.mu.Lock()
	defer s.handoffLocks.mu.Unlock()
	for _, bl := range []*handoffLock{one, two} {
		if bl != nil {
			s.handoffLocks.putBackLocked(bl)
		}
	}
	return nil, nil, false
}

func (bl *handoffLock) send(j job) job {
	bl.b.mu.Lock()
	defer bl.b.mu.Unlock()
	return bl.sendLocked(j)
}

// Deadlock lets two handoff locks of a store wait for each other, and returns for how many of them the
// server answered so.
func Deadlock(ctx context.Context, s *Store) (answers int) {
	one, two, ok := twoHandoffLocks(ctx, s)
	if !ok {
		return -1
	}
	const bound = 20 * time.Second // the second wait must reach the server before the first one ends
	waits := []job{one.send(job{other: two.id, bound: bound}), two.send(job{other: one.id, bound: bound})}
	for _, j := range waits {
		<-j.done
		if j.end.state == waitChain {
			answers++
		}
	}
	return answers
}

// WaitWithoutEnd lets one handoff lock of a store wait for another, by a statement that reads the row or
// does not. It returns a channel that is closed when the wait ends, which frees the other handoff lock
// does; nil if the store has no two handoff locks yet.
func WaitWithoutEnd(ctx context.Context, s *Store, read bool) (done <-chan struct{}, refused func() bool, end func()) {
	one, two, ok := twoHandoffLocks(ctx, s)
	if !ok {
		return nil, nil, nil
	}
	j := one.send(job{other: two.id, bound: time.Hour, name: "x", read: read})
	return j.done, func() bool { return j.end.state == waitRefused }, func() { two.send(job{}) }
}

// NoHandoffLocks reports whether a store has found out that handoff locks cannot work.
func NoHandoffLocks(s *Store) bool {
	s.handoffLocks.mu.Lock()
	defer s.handoffLocks.mu.Unlock()
	return s.handoffLocks.never
}

// WaitsFor returns the handoff lock that is noted as before a claim, and the one for which its connection waits,
// as the server knows them, or "".
func WaitsFor(ss driver.Session, seq uint64) (before, waits string) {
	own := ss.(*session)
	own.mu.Lock()
	defer own.mu.Unlock()
	w := own.waits[seq]
	if w == nil {
		return "", ""
	}
	if w.before != 0 {
		before = handoffLockName(w.before)
	}
	if w.wait != nil {
		waits = handoffLockName(w.wait.other)
	}
	return before, waits
}

// TouchHandoffLocks makes a store use the connections of its claims' handoff locks so often. It must have no handoff lock
// yet, and its claims wait for one.
func TouchHandoffLocks(s *Store, every time.Duration) {
	s.handoffLocks.idleFor, s.handoffLocks.patience = every, time.Minute
}

// MaxHandoffLocks is how many handoff locks a store may have.
const MaxHandoffLocks = maxHandoffLocks

// Take takes a free lock that has its row by the one flat statement for it, and reports whether it did.
func Take(ss driver.Session, name string, seq uint64) (bool, error) {
	own := ss.(*session)
	claim, err := lockrow.NewClaim(own.sid, own.generation, &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	if err != nil {
		return false, err
	}
	counter, err := own.take(context.Background(), &claim, name)
	return counter > 0, err
}

// Unlock gives a lock back by the one flat statement for it, and reports whether it did.
func Unlock(ss driver.Session, name string, seq uint64) (bool, error) {
	return ss.(*session).unlock(context.Background(), driver.Withdrawal{Name: name, Seq: seq})
}

// Server returns what a session takes for the server of its incarnation, and SetServer sets it.
func Server(ss driver.Session) string            { return *ss.(*session).server.Load() }
func SetServer(ss driver.Session, server string) { ss.(*session).learnServer(server) }

// SetHolders makes a store take these for the holders of a lock.
func SetHolders(s *Store, name string, holders []driver.Holder) { s.recent.heldBy(name, holders) }

// Prefix begins the names of the tables.
func (o Options) Prefix() string { return o.prefix() }

// Released returns how many releases of a session are not known to be durable.
func Released(ss driver.Session) int {
	r := ss.(*session).released
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}

// Settle settles the releases of a session as after a keep-alive, and waits for it.
func Settle(ss driver.Session) {
	ss.(*session).settleSoon()
	AwaitSweep(ss.(*session).store)
}

// HoldSettling keeps a session from settling its releases until it is let go.
func HoldSettling(ss driver.Session) (letGo func()) {
	r := ss.(*session).released
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settling = true
	return func() { r.end(nil) }
}

// MaxReleased is how many releases a session remembers.
const MaxReleased = maxReleased
