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
	// sweepFields is how many fields of the bucket a call reads, to drop sessions that ended.
	// sweepNames is how many locks a call sweeps.
	sweepFields = "256"
	sweepNames  = 64
)

// sweeper drops what processes that died have left behind. A lock is found free without it
// at the next attempt; the sweep frees the memory of locks that no process uses any more.
//
// It costs nothing while no process dies: every few keep-alives of a session also read
// whether a session ended without being closed. Then the process becomes the one sweeper of
// the bucket, unless another process is, and goes over all locks, a few at a time. What is left of the session itself goes last, so that a sweep that breaks off is
// begun again by the next process that checks.
type sweeper struct {
	s     *session
	calls atomic.Int64
	busy  atomic.Bool
}

// due reports whether a keep-alive shall check for sessions that ended.
func (w *sweeper) due() bool { return !w.s.store.opts.Eager && w.calls.Add(1)%sweepEvery == 1 }

// begin sweeps in the background.
func (w *sweeper) begin() {
	if !w.busy.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer w.busy.Store(false)
		w.sweep()
	}()
}

// tidy makes this process the sweeper, and drops what is left of sessions that ended before
// a time, in a part of the bucket. It reports false if another process sweeps.
func (w *sweeper) tidy(cursor, before string) (next, now string, ok bool) {
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.ttl)
	defer cancel()
	reply, err := w.s.store.call(ctx, tidyScript, w.s.shard, w.s.incarnation, nil, w.s.sid, cursor, sweepFields, before, ms(w.lease()))
	if err != nil || reply[0] != "OK" {
		return "0", "0", false
	}
	r := wire.Reader{Rest: reply[1:]}
	next, now = r.Text(), r.Text()
	return next, now, r.Err() == nil
}

// sweep goes over all locks of the bucket, then over its fields.
func (w *sweeper) sweep() {
	_, began, ok := w.tidy("0", "0")
	if !ok {
		return // another process sweeps
	}
	for cursor := uint64(0); ok; {
		ctx, cancel := context.WithTimeout(w.s.ctx, w.s.ttl)
		names, next, err := w.s.store.scan(ctx, w.s.base, cursor, "")
		for part := range slices.Chunk(names, sweepNames) {
			ok = ok && err == nil && w.locks(ctx, began, part)
		}
		cancel()
		if _, _, still := w.tidy("0", "0"); err != nil || !still {
			return
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for cursor := "0"; ok; {
		if cursor, _, ok = w.tidy(cursor, began); cursor == "0" || !w.pause() {
			return
		}
	}
}

// locks sweeps some locks.
func (w *sweeper) locks(ctx context.Context, began string, names []string) bool {
	for {
		reply, err := w.s.store.call(ctx, sweepScript, w.s.shard, w.s.incarnation, names, append([]string{began}, names...)...)
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
