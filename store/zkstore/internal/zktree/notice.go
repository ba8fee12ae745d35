// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"

	"github.com/fencelock/fencelock/driver"
)

// watchGrant begins to watch the queue behind a claim, if that is granted and has Watch.
func (l *link) watchGrant(cl *driver.Claim, granted bool) {
	if granted && cl.Watch {
		l.notices.Start(context.Background(), cl, func(ctx context.Context, seq uint64, name string) (bool, error) {
			return run(l.again(ctx, "notify"), func(c *call) (bool, error) { return l.queuedBehind(c, seq, name) })
		})
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
