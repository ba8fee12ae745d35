// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

const (
	// sweepEvery is how many keep-alives of a session pass between two checks of the bucket.
	sweepEvery = 8
	// sweepCheck and sweepFields are how many fields of the bucket a call reads, to find
	// sessions that ended and to drop them. sweepNames is how many locks a call sweeps.
	sweepCheck, sweepFields = "64", "256"
	sweepNames              = 64
)

// sweeper drops what processes that died have left behind. A lock is found free without it
// at the next attempt; the sweep frees the memory of locks that no process uses any more.
//
// It costs nothing while no process dies: every few keep-alives a session checks a part of
// the bucket. If it finds a session that ended without being closed, it becomes the one
// sweeper of the bucket, unless another process is, and goes over all locks, a few at a
// time. What is left of the session itself goes last, so that a sweep that breaks off is
// begun again by the next process that checks.
type sweeper struct {
	s      *session
	calls  atomic.Int64
	busy   atomic.Bool
	cursor string // of the next check
}

// kept is called after each keep-alive.
func (w *sweeper) kept() {
	if w.s.store.opts.Eager || w.calls.Add(1)%sweepEvery != 1 || !w.busy.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer w.busy.Store(false)
		if w.check() {
			w.sweep()
		}
	}()
}

// tidy reads a part of the bucket.
func (w *sweeper) tidy(cursor, fields, before string, lease time.Duration) (next string, dead int64, now string, ok bool) {
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.ttl)
	defer cancel()
	reply, err := w.s.store.call(ctx, tidyScript, w.s.shard, w.s.incarnation, nil, w.s.sid, cursor, fields, before, ms(lease))
	if err != nil || reply[0] != "OK" {
		return "0", 0, "0", false
	}
	r := wire.Reader{Rest: reply[1:]}
	next, dead, now = r.Text(), r.Number(), r.Text()
	return next, dead, now, r.Err() == nil
}

// check reports whether a session ended without being closed, in a part of the bucket.
func (w *sweeper) check() bool {
	if w.cursor == "" {
		w.cursor = "0"
	}
	next, dead, _, ok := w.tidy(w.cursor, sweepCheck, "0", 0)
	w.cursor = next
	return ok && dead > 0
}

// sweep goes over all locks of the bucket, then over its fields.
func (w *sweeper) sweep() {
	_, _, began, ok := w.tidy("0", "1", "0", w.lease())
	if !ok {
		return // another process sweeps
	}
	for cursor := uint64(0); ok; {
		ctx, cancel := context.WithTimeout(w.s.ctx, w.s.ttl)
		names, next, err := w.s.store.scan(ctx, w.s.base, cursor, "")
		for part := range slices.Chunk(names, sweepNames) {
			ok = ok && err == nil && w.locks(ctx, part)
		}
		cancel()
		if _, _, _, ok2 := w.tidy("0", "1", "0", w.lease()); err != nil || !ok2 {
			return
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for cursor := "0"; ok; {
		if cursor, _, _, ok = w.tidy(cursor, sweepFields, began, w.lease()); cursor == "0" || !w.pause() {
			return
		}
	}
}

// locks sweeps some locks.
func (w *sweeper) locks(ctx context.Context, names []string) bool {
	for {
		reply, err := w.s.store.call(ctx, sweepScript, w.s.shard, w.s.incarnation, names, append([]string{w.s.sid}, names...)...)
		if err != nil || !w.pause() {
			return false
		}
		if !more(reply) {
			return true
		}
	}
}

// lease is for how long a process is the one that sweeps without renewing that.
func (w *sweeper) lease() time.Duration { return max(w.s.ttl, time.Second) }

// pause leaves time to other calls. It reports whether the session goes on.
func (w *sweeper) pause() bool {
	select {
	case <-w.s.ctx.Done():
		return false
	case <-time.After(between):
		return true
	}
}

// scan returns a part of the names of a bucket that have a list, and the next cursor, 0 at
// the end.
func (s *Store) scan(ctx context.Context, base string, cursor uint64, prefix string) (names []string, next uint64, err error) {
	lists := base + ":l:"
	reply, err := s.client.Eval(ctx, scanScript, keys(base, nil), []string{strconv.FormatUint(cursor, 10), escape(lists+prefix) + "*", scanned})
	if err != nil {
		return nil, 0, s.explain(err)
	}
	r := wire.Reader{Rest: reply}
	next = uint64(r.Number())
	for _, key := range r.List() {
		name, _ := key.(string)
		names = append(names, name[min(len(lists), len(name)):])
	}
	return names, next, r.Err()
}
