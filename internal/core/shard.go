// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"sync"
)

// Shard is what this client knows of one shard of the store: its session
// there, and a queue for every name that is exclusively held or waited for.
//
// One mutex guards it all: sessions, queues, grants and leases of the shard. It
// is never held during I/O; the only mutex taken under it is the client's.
type Shard struct {
	c  *Client
	id string

	mu      sync.Mutex
	closed  bool
	session *session // opening or live, or nil
	failing bool     // the last session could not be opened
	queues  map[string]*queue
	cooling cooling
}

// queueLocked returns the queue of that name and makes it if needed. sh.mu must be held.
func (sh *Shard) queueLocked(name string) *queue {
	q := sh.queues[name]
	if q == nil {
		q = &queue{name: name}
		sh.queues[name] = q
	}
	return q
}

// tidyLocked drops the queue of a name that is neither held exclusively nor waited
// for. sh.mu must be held.
func (sh *Shard) tidyLocked(q *queue) {
	if q.idle() && sh.queues[q.name] == q {
		delete(sh.queues, q.name)
	}
}

// enter returns the shard's live session with one more user, which must leave
// it. If the shard has no live session, enter opens one.
func (sh *Shard) enter(ctx context.Context) (*session, error) {
	for {
		sh.mu.Lock()
		s := sh.session
		switch {
		case sh.closed:
			sh.mu.Unlock()
			return nil, ErrClosed
		case s == nil:
			s = newSession(sh)
			if !sh.c.Background(s.run) {
				sh.mu.Unlock()
				return nil, ErrClosed
			}
			sh.session = s
		case s.state.live():
			s.users++
			sh.mu.Unlock()
			return s, nil
		}
		sh.mu.Unlock()
		select {
		case <-s.ready:
			if s.openErr != nil {
				return nil, s.openErr
			}
		case <-ctx.Done():
			return nil, CtxError(ctx)
		}
	}
}

// close ends everything with ErrClosed.
func (sh *Shard) close() {
	sh.mu.Lock()
	sh.closed = true
	s := sh.session
	for _, q := range sh.queues {
		for w := q.pop(); w != nil; w = q.pop() {
			w.ready <- turn{err: ErrClosed}
		}
	}
	sh.mu.Unlock()
	if s != nil {
		s.end(ErrClosed)
	}
}
