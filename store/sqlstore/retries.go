// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"sync"
	"time"
)

// retries lets the writers of one row that were too late try again one after the other, as far
// as they are in this process. Without it all of them read the row again at the same moment, and
// all but one of them for nothing: it is read as often as their number squared.
type retries struct {
	mu sync.Mutex
	of map[string]*retry
}

type retry struct {
	taken chan struct{} // has room for one
	users int
	ended int // counts retries
}

// retryPatience is how long a writer may take until the next one goes on anyway: it may wait
// for an answer that was lost.
const retryPatience = time.Second

// wait waits until no other writer of a row tries again, and returns what ends this one's try.
func (t *retries) wait(ctx context.Context, name string) (end func()) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*retry{}
	}
	one := t.of[name]
	if one == nil {
		one = &retry{taken: make(chan struct{}, 1)}
		t.of[name] = one
	}
	one.users++
	t.mu.Unlock()
	mine := t.take(ctx, one)
	return func() {
		if mine {
			<-one.taken
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		one.ended++
		if one.users--; one.users == 0 {
			delete(t.of, name)
		}
	}
}

// take reports whether the caller is the only one that tries again. It waits for as long as
// others come to an end.
func (t *retries) take(ctx context.Context, one *retry) bool {
	for seen := -1; ; {
		t.mu.Lock()
		ended := one.ended
		t.mu.Unlock()
		if ended == seen {
			return false
		}
		seen = ended
		timer := time.NewTimer(retryPatience)
		select {
		case one.taken <- struct{}{}:
			timer.Stop()
			return true
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
