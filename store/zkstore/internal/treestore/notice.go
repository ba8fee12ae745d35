// SPDX-License-Identifier: Apache-2.0

package treestore

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// notices are the watches on the queues behind the grants of a session whose holders asked
// for it. Guarded by the link's mu.
type notices struct {
	wanted  func(seq uint64)              // of the last Open
	watches map[uint64]context.CancelFunc // by claim, also of those that were notified
}

// watchGrant begins to watch the queue behind a claim, if that is granted and has Watch.
func (l *link) watchGrant(cl *driver.Claim, granted bool) {
	if !granted || !cl.Watch {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOver || l.notices.wanted == nil || l.notices.watches[cl.Seq] != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) // not with the call that began it
	if l.notices.watches == nil {
		l.notices.watches = map[uint64]context.CancelFunc{}
	}
	l.notices.watches[cl.Seq] = cancel
	seq, name := cl.Seq, cl.Name
	go func() {
		defer cancel()
		l.notify(ctx, seq, name)
	}()
}

// unwatchLocked ends the watch behind a claim that was withdrawn. l.mu must be held.
func (l *link) unwatchLocked(seq uint64) {
	if cancel := l.notices.watches[seq]; cancel != nil {
		cancel()
		delete(l.notices.watches, seq)
	}
}

// unwatchAllLocked ends the watches of a session that has ended. l.mu must be held.
func (l *link) unwatchAllLocked() {
	for seq := range l.notices.watches {
		l.unwatchLocked(seq)
	}
}

// notify notifies the session when a claim is queued behind the granted one, and returns
// then, or when ctx, the grant or the session ends.
func (l *link) notify(ctx context.Context, seq uint64, name string) {
	for {
		wanted, err := run(l.again(ctx, "notify"), func(c *call) (bool, error) { return l.queuedBehind(c, seq, name) })
		switch {
		case wanted:
			l.mu.Lock()
			send := l.notices.wanted
			l.mu.Unlock()
			send(seq)
			return
		case err == nil: // a withdrawal came before the watch
			l.mu.Lock()
			l.unwatchLocked(seq)
			l.mu.Unlock()
			return
		case errors.Is(err, driver.ErrGone):
			return
		}
		select {
		case <-time.After(l.ask / 8):
		case <-ctx.Done():
			return
		case <-l.over:
			return
		}
	}
}

// queuedBehind returns true when a claim waits for the lock, or another program has asked for its
// release, and false without an error if the grant is not there. A try that is not granted is not
// queued, or only for a moment.
func (l *link) queuedBehind(c *call, seq uint64, name string) (bool, error) {
	path := l.store.layout.lock(name)
	for {
		ln, err := l.readLock(c, name)
		if err != nil {
			return false, err
		}
		n, held := ln.holds(l.id, seq)
		if !held || len(ln.waiting) > 0 {
			return held, nil
		}
		child := path + "/" + pinName
		if !l.store.layout.alone() {
			child = path + "/" + n.name
			if data, _, err := c.get(child); err != nil || string(data) == revocation {
				return err == nil, err
			}
		}
		wait, err := l.watchQueue(c, path, child)
		if err != nil {
			return false, err
		}
		if wait == nil {
			continue // the watch is newer than the read
		}
		select {
		case <-wait.a:
		case <-wait.b:
		case <-l.over:
			return false, c.gone()
		case <-c.ctx.Done():
			return false, c.over()
		}
	}
}
