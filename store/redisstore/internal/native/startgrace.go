// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// startGraceBound is how long one call may take: a bucket that does not answer is left alone.
const startGraceBound = 2 * time.Second

// agreeBound is the same for the call that a session waits for before it is opened.
const agreeBound = startGraceBound / 4

// graceStarter begins the grace of all buckets together. A bucket begins a new incarnation, and
// with it its grace, with the next call. If that were the first attempt for a lock in
// it, every bucket would cost its own MaxTTL, hours after the namespace was new or a
// server failed over. So a session that finds an incarnation its process has not seen
// makes it call the other buckets, which may have lost their data too.
//
// It is best effort: a bucket that cannot be reached begins with its next call.
type graceStarter struct {
	mu    sync.Mutex
	busy  bool
	seen  map[string]string // incarnations, by shard
	found map[string]string // those that sessions found while busy
}

// startGrace notes which incarnation a session was opened in, and starts the grace of all buckets if it is a new one.
func (s *Store) startGrace(shard, incarnation string) {
	if s.opts.Buckets == 1 || !s.own().grace && !s.seen.grace() {
		return
	}
	g := &s.starter
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.busy:
		g.found[shard] = incarnation
	case g.seen[shard] != incarnation:
		g.busy, g.found = true, map[string]string{}
		go s.startGraceEverywhere()
	}
}

// agree makes sure that the first bucket has a marker with our layout, before a session
// sets up any other bucket. Buckets that have no marker yet would otherwise let in a process
// with another number of them, which keeps the same name in another bucket: two holders.
// Operators' calls find the marker, too (layout.go).
//
// A first bucket that cannot be reached stops no other bucket; the next session tries again.
func (s *Store) agree(ctx context.Context, shard string) error {
	if s.opts.Buckets == 1 || shard == firstShard || s.agreed.Load() {
		return nil
	}
	bound, cancel := context.WithTimeout(ctx, agreeBound)
	defer cancel()
	_, err := s.touchBucket(bound, firstShard)
	if errors.Is(err, driver.ErrRefused) || ctx.Err() != nil {
		return err
	}
	s.agreed.Store(err == nil)
	return nil
}

// startGraceEverywhere calls all buckets, in rounds, until a round finds the same incarnations as the
// round before and no session found another one in the meantime. A round that finds something
// new is not enough: data may be lost while the round is under way, also in buckets that it
// has already called. The next bucket then has a new incarnation, which the round and the
// session that finds the loss both see. startGraceEverywhere does not use a session's context: the session
// that found something may be over, and the next session relies on the result.
func (s *Store) startGraceEverywhere() {
	g := &s.starter
	for again := true; again; {
		seen := s.touchOnce()
		g.mu.Lock()
		again = !agrees(seen, g.seen) || !agrees(g.found, seen)
		g.seen, g.busy = seen, again
		clear(g.found)
		g.mu.Unlock()
	}
}

// touchOnce calls every bucket and returns the incarnations of those that answered.
func (s *Store) touchOnce() map[string]string {
	seen := map[string]string{}
	for b := range s.opts.Buckets {
		ctx, cancel := context.WithTimeout(context.Background(), startGraceBound)
		shard := strconv.Itoa(b)
		if incarnation, err := s.touchBucket(ctx, shard); err == nil {
			seen[shard] = incarnation
		}
		cancel()
	}
	return seen
}

// touchBucket calls a bucket, notes its settings and returns its incarnation.
func (s *Store) touchBucket(ctx context.Context, shard string) (string, error) {
	reply, err := s.call(ctx, touchScript, shard, "0", nil)
	if err != nil {
		return "", err
	}
	r := rediscmd.Reader{Rest: reply[1:]}
	incarnation := r.Text()
	k := known{grace: r.Number() == 1, maxTTL: r.Millis()}
	if err := r.Err(); err != nil {
		return "", err
	}
	k.incarnation, _ = strconv.ParseInt(incarnation, 10, 64)
	s.seen.note(s.buckets.key(shard, s.layout.buckets), k)
	return incarnation, nil
}

// agrees reports whether every incarnation of found is known.
func agrees(found, known map[string]string) bool {
	for shard, incarnation := range found {
		if known[shard] != incarnation {
			return false
		}
	}
	return true
}
