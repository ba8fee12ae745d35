// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// touchBound is how long one call may take: a bucket that does not answer is left alone.
const touchBound = 2 * time.Second

// toucher begins the grace of all buckets together. A bucket begins a new incarnation, and
// with it its grace, when somebody comes by. If that were the first who wants a lock in
// it, every bucket would cost a MaxTTL of its own, hours after the namespace was new or a
// server failed over. So a session that finds an incarnation its process has not seen
// makes it look at the other buckets, which may have lost their memory too.
//
// It is an attempt: a bucket that cannot be reached begins when somebody comes by.
type toucher struct {
	mu    sync.Mutex
	busy  bool
	seen  map[string]string // incarnations, by shard
	found map[string]string // those that sessions found meanwhile
}

// touch is told which incarnation a session was opened in.
func (s *Store) touch(shard, incarnation string) {
	if !s.opts.Grace || s.opts.Buckets == 1 {
		return
	}
	t := &s.toucher
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.busy:
		t.found[shard] = incarnation
	case t.seen[shard] != incarnation:
		t.busy, t.found = true, map[string]string{}
		go s.touchAll()
	}
}

// touchAll goes round the buckets until nothing new was found on the way. It has no
// session's context: the one that found something may be over, and the next relies on it.
func (s *Store) touchAll() {
	t := &s.toucher
	for again := true; again; {
		seen := map[string]string{}
		for b := range s.opts.Buckets {
			ctx, cancel := context.WithTimeout(context.Background(), touchBound)
			shard := strconv.Itoa(b)
			if reply, err := s.call(ctx, touchScript, shard, "0"); err == nil && len(reply) == 2 {
				seen[shard], _ = reply[1].(string)
			}
			cancel()
		}
		t.mu.Lock()
		again = false
		for shard, incarnation := range t.found {
			again = again || seen[shard] != incarnation
		}
		t.seen, t.busy = seen, again
		clear(t.found)
		t.mu.Unlock()
	}
}
