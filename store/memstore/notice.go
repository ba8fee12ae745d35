// SPDX-License-Identifier: Apache-2.0

package memstore

import "github.com/fencelock/fencelock/driver"

// watch notes that the session of a claim wants notices about it.
func (e *entry) watch(c *driver.Claim) {
	if c.Watch {
		e.claim.Watch, e.live.watching = true, true
	}
}

// notifyHolders notifies the sessions of the watched grants of a lock that a claim is
// queued for it. A grant is notified once; the keep-alive repeats it.
func (sh *shard) notifyHolders(l *lock) {
	if len(l.queue) == 0 || sh.notice != driver.NoticeAtOnce {
		return
	}
	for _, g := range l.grants {
		if !g.notified {
			g.notify()
		}
	}
}

// renotify notifies a session of all its watched grants that claims are queued for.
func (sh *shard) renotify(l *liveness) {
	if !l.watching || sh.notice == driver.NoNotice {
		return
	}
	for _, e := range l.claims {
		if e.granted && len(sh.lock(e.claim.Name).queue) > 0 {
			e.notify()
		}
	}
}

// notify calls the holder's session, if that watches the grant.
func (e *entry) notify() {
	if e.live == nil || !e.claim.Watch || e.live.wanted == nil {
		return
	}
	e.notified = true
	e.live.wanted(e.claim.Seq)
}
