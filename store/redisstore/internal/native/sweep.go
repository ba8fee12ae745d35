// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

const (
	// sweepEvery is how many keep-alives of a session pass between two checks of the bucket.
	sweepEvery = 8
	// sweepFields is how many fields of the bucket a call reads, to drop sessions that ended.
	// sweepNames is how many locks a call sweeps at most; sweep.lua stops before, after half a millisecond.
	sweepFields = "256"
	sweepNames  = 75
	// sweepLease is for how long a process is the one that sweeps a bucket without renewing that.
	sweepLease = 20 * time.Second
	// sweepCall is how long a call of a sweep may take.
	sweepCall = 5 * time.Second
)

// sweeper drops what processes that died have left behind, and locks that were kept without a session and have ended. A
// lock is found free without it at the next attempt; the sweep frees the memory of locks that no process uses any more.
//
// It costs nothing while no process dies and no lock is kept: every few keep-alives of a session also read
// whether a session ended without being closed, and whether a name is due to be looked at (K in lib.lua). Then the process
// becomes the one sweeper of the bucket, unless another process is, and sweeps the locks that are due, with pauses. They are
// found in a sorted set, not by a scan of all locks: a fleet may mark occurrences of jobs all the time.
//
// After the end of a session it goes once over all locks, for all sessions that have ended by then. What is left of
// the sessions themselves goes last, so that a sweep that breaks off is begun again by the next process that checks.
type sweeper struct {
	s       *session
	calls   atomic.Int64
	busy    atomic.Bool
	kept    atomic.Int64 // locks that this session has left kept
	renewed time.Time    // the lease
	looked  time.Time    // when no name was due
}

// found is what a keep-alive has found to be swept.
type found struct {
	dead bool // a session ended without being closed
	due  bool // a name is to be looked at
}

// due reports whether a keep-alive shall check whether there is something to sweep.
func (w *sweeper) due() bool { return !w.s.store.switches.eager && w.calls.Add(1)%sweepEvery == 1 }

// begin sweeps in the background.
func (w *sweeper) begin(f found) {
	if f == (found{}) || !w.busy.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer w.busy.Store(false)
		w.sweep(f.dead)
	}()
}

// sweep goes over the locks that are due and, if a session has ended, over all locks of the bucket, then over its fields.
func (w *sweeper) sweep(all bool) {
	_, began, ok := w.tidy("0", "0")
	if !ok {
		return // another process sweeps
	}
	if !w.lookAgain() {
		return
	}
	if !all {
		w.call(tidyScript, nil, w.s.sid, "0", sweepFields, "0", "0")
		return
	}
	for cursor := uint64(0); ; {
		names, next, ok := w.scan(cursor)
		for ok && len(names) > 0 {
			names, _, ok = w.locks(names, began, false)
		}
		if !ok {
			return
		}
		if cursor = next; cursor == 0 {
			break
		}
		// A pass may take hours. What is due in the meantime does not wait for its end.
		if time.Since(w.looked) > sweepLease && !w.lookAgain() {
			return
		}
	}
	for cursor := "0"; ; {
		if cursor, _, ok = w.tidy(cursor, began); !ok || cursor == "0" {
			return
		}
	}
}

// tidy makes this process the sweeper, and drops what is left of sessions that ended before
// a time, in a part of the bucket. It reports false if another process sweeps.
func (w *sweeper) tidy(cursor, before string) (next, now string, ok bool) {
	reply, ok := w.call(tidyScript, nil, w.s.sid, cursor, sweepFields, before, ms(sweepLease))
	if !ok || reply[0] != "OK" {
		return "", "", false
	}
	w.renewed = time.Now()
	r := rediscmd.Reader{Rest: reply[1:]}
	next, now = r.Text(), r.Text()
	return next, now, r.Err() == nil
}

// renew renews the lease in time, and reports whether this process is still the sweeper.
func (w *sweeper) renew() bool {
	if time.Since(w.renewed) <= sweepLease/4 {
		return true
	}
	_, _, ok := w.tidy("0", "0")
	return ok
}

// lookAgain sweeps the locks that are due, until none is. It reports whether this process is still the sweeper.
func (w *sweeper) lookAgain() bool {
	for {
		ctx, cancel := context.WithTimeout(w.s.ctx, sweepCall)
		names, err := w.names(ctx)
		cancel()
		if err != nil {
			return false
		}
		due := int64(0)
		for len(names) > 0 {
			rest, n, ok := w.locks(names, "0", true)
			if !ok {
				return false
			}
			names, due = rest, due+n
		}
		if due == 0 { // or the clock of the server was set back since we read it
			w.looked = time.Now()
			return true
		}
	}
}

// names returns some names that are due.
func (w *sweeper) names(ctx context.Context) (names []string, err error) {
	var c rediscmd.Commands
	c.Add("ZRANGEBYSCORE", w.s.base+":k", "-inf", strconv.FormatInt(w.s.alive.earliest(), 10), "LIMIT", "0", strconv.Itoa(sweepNames))
	if err := w.s.store.client.Send(ctx, &c); err != nil {
		return nil, err
	}
	for c.Rest() > 0 {
		names = append(names, c.Text())
	}
	return names, nil
}

// last removes locks that are due before the session is over, about as many as the session has left. Processes that run
// a job and end have no keep-alive that would do it.
func (w *sweeper) last(ctx context.Context) {
	kept := w.kept.Load()
	if kept == 0 || w.s.store.switches.eager {
		return
	}
	for range 1 + 2*kept/sweepNames {
		names, err := w.names(ctx)
		if err != nil || len(names) == 0 {
			return
		}
		if _, err := w.s.store.call(ctx, sweepScript, w.s.shard, w.s.incarnation, names, append([]string{"0", "1"}, names...)...); err != nil {
			return
		}
	}
}

// scan returns some names.
func (w *sweeper) scan(cursor uint64) (names []string, next uint64, ok bool) {
	if !w.renew() {
		return nil, 0, false
	}
	ok = w.step(func(ctx context.Context) (err error) {
		names, next, err = w.s.store.scan(ctx, w.s.base, cursor, "")
		return err
	})
	return names, next, ok
}

// locks sweeps some locks in a sweep that began at a time, and returns the rest of them. If only those that are due are swept, it
// returns how many were.
func (w *sweeper) locks(names []string, began string, dueOnly bool) (left []string, due int64, ok bool) {
	if !w.renew() {
		return nil, 0, false
	}
	part := names[:min(len(names), sweepNames)]
	reply, ok := w.call(sweepScript, part, append([]string{began, flag(dueOnly)}, part...)...)
	if !ok {
		return nil, 0, false
	}
	r := rediscmd.Reader{Rest: reply[1:]}
	done, due := r.Number(), r.Number()
	if r.Err() != nil || done < 0 || done > int64(len(part)) {
		return nil, 0, false
	}
	return names[done:], due, true
}

// call runs a script as a step.
func (w *sweeper) call(script *rediscmd.Script, names []string, own ...string) (reply []any, ok bool) {
	ok = w.step(func(ctx context.Context) (err error) {
		reply, err = w.s.store.call(ctx, script, w.s.shard, w.s.incarnation, names, own...)
		return err
	})
	return reply, ok
}

// step makes a call, then leaves time to other calls. It reports whether the sweep goes on.
func (w *sweeper) step(call func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(w.s.ctx, sweepCall)
	defer cancel()
	began := time.Now()
	if call(ctx) != nil {
		return false
	}
	select {
	case <-w.s.ctx.Done():
		return false
	case <-time.After(rest(time.Since(began), w.s.store.opts.Buckets)):
		return true
	}
}

// rest is how long a sweeper pauses after a step: ten times as long as the step took, and that for
// each bucket. All buckets of a server may be swept at once, by as many processes, and together
// they take at most a tenth of its time. A step that took much longer than a server works on one
// was held up elsewhere, by the network or by other calls.
func rest(took time.Duration, buckets int) time.Duration {
	return time.Duration(buckets) * min(max(10*took, between), longest)
}

// longest is twenty times what a step keeps the server busy.
const longest = 10 * time.Millisecond

// scan returns a part of the names of a bucket that have a list, and the next cursor, 0 at
// the end.
func (s *Store) scan(ctx context.Context, base string, cursor uint64, prefix string) (names []string, next uint64, err error) {
	lists := base + ":l:"
	reply, err := s.client.Eval(ctx, scanScript, keys(base, nil), []string{strconv.FormatUint(cursor, 10), escape(lists+prefix) + "*", scanned})
	if err != nil {
		return nil, 0, s.explain(err)
	}
	r := rediscmd.Reader{Rest: reply}
	next = uint64(r.Number())
	for _, key := range r.List() {
		name, _ := key.(string)
		names = append(names, name[min(len(lists), len(name)):])
	}
	return names, next, r.Err()
}

// tombstoneKept is how long the store keeps a mark at least (expired in lib.lua).
const tombstoneKept = time.Hour

// expire drops, in the background, the tombstones of claims of which no call can arrive any more. Only this process knows
// the names of the locks, in which such a call may have left the claim. It drops all of them, in parts with pauses, as a
// sweep does: callers that give up make them at any rate, and most of all when the server is slow.
func (s *session) expire() {
	const longer = int64(time.Minute / time.Millisecond) // than the store keeps them, by its clock
	before := s.alive.earliest() - tombstoneKept.Milliseconds() - longer
	if len(s.claims.old(before, 1)) == 0 || !s.expiring.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.expiring.Store(false)
		for old := s.claims.old(before, maxClosed); len(old) > 0; old = s.claims.old(before, maxClosed) {
			if !s.sweeper.step(func(ctx context.Context) error { return s.dropTombstones(ctx, old) }) {
				return // the next keep-alive tries again
			}
			s.claims.expired(len(old))
		}
	}()
}

// dropTombstones drops some tombstones in the store.
func (s *session) dropTombstones(ctx context.Context, old []tombstone) error {
	var names, args []string
	for _, t := range old {
		names, args = append(names, t.name), append(args, strconv.FormatUint(t.seq, 10), t.name)
	}
	_, err := s.call(ctx, expireScript, names, args...)
	return err
}

// between is the time that a walk leaves to other calls.
const between = 2 * time.Millisecond

// walk removes the dead claims that are left in front of a queue, so that the first claim
// that lives behind them is granted the lock and need not wait for its own next poll. reply
// is that of the script that left them. An error ends the walk; polls go on then.
func (s *Store) walk(ctx context.Context, set layout, name string, reply []any) {
	for more(reply) {
		var err error
		if reply, err = s.callWith(ctx, set, wakeScript, set.shard(name), []string{name}, "0", "", name); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(between):
		}
	}
}

// more reports whether a script left dead claims in front of a queue: its reply ends with 1.
func more(reply []any) bool { return len(reply) > 1 && reply[len(reply)-1] == int64(1) }
