// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"sync"
	"time"
)

// turns lets the writers of one row that were too late come one after the other, as far as
// they are in this process. Without it all of them read the row again at the same moment, and
// all but one of them for nothing: it is read as often as their number squared.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	taken chan struct{} // has room for one
	users int
	ended int // counts turns
}

// turnPatience is how long a turn is waited for. Then the next writer goes on without its own:
// the one whose turn it is may wait for an answer that was lost.
const turnPatience = time.Second

// wait waits for the turn to write a row, and returns what ends it.
func (t *turns) wait(ctx context.Context, name string) (end func()) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	one := t.of[name]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
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

// take reports whether it is the caller's turn. It waits for as long as turns end.
func (t *turns) take(ctx context.Context, one *turn) bool {
	for seen := -1; ; {
		t.mu.Lock()
		ended := one.ended
		t.mu.Unlock()
		if ended == seen {
			return false
		}
		seen = ended
		timer := time.NewTimer(turnPatience)
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
