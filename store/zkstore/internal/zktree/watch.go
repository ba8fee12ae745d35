// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/go-zookeeper/zk"
)

// changed signals by either channel that it is worth reading again. A nil channel never
// does.
type changed struct{ a, b <-chan zk.Event }

// Await implements driver.Session.
func (ss *session) Await(ctx context.Context, cl *driver.Claim) (driver.Outcome, error) {
	out, err := run(ss.again(ctx, "await"), func(c *call) (driver.Outcome, error) {
		wait, err := ss.resume(c, cl)
		for {
			var out driver.Outcome
			if wait == nil && err == nil {
				out, wait, err = ss.waitFor(c, cl)
			}
			if wait == nil || err != nil {
				return out, err
			}
			select {
			case <-wait.a:
			case <-wait.b:
			case <-ss.over:
				return driver.Outcome{}, c.gone()
			case <-ctx.Done():
				return driver.Outcome{}, c.over()
			}
			wait = nil
		}
	})
	ss.watchGrant(cl, err == nil && out.State == driver.Granted)
	return out, err
}

// resume goes on where the last read of the queue ended: if what blocked the claim is
// still there, it is not granted. It returns nil if the queue must be read, and the server
// then shows as much as this process knows of.
func (ss *session) resume(c *call, cl *driver.Claim) (*changed, error) {
	if e, ok := ss.knownClaim(cl.Seq); ok && e.blocker != "" && !e.granted {
		// Without the blocker the queue is read. The server has shown that it is gone, so what
		// it shows next is not older.
		return ss.watchNode(c, ss.store.layout.lock(cl.Name)+"/"+e.blocker)
	}
	return nil, c.catchUp(ss.store)
}

// waitFor reads whether the claim is granted. If not, it returns what signals when it
// is worth reading again.
func (ss *session) waitFor(c *call, cl *driver.Claim) (out driver.Outcome, wait *changed, err error) {
	path := ss.store.layout.lock(cl.Name)
	for {
		ln, err := ss.readLock(c, cl.Name)
		if err := cmp.Or(err, ln.strange); err != nil {
			return out, nil, err
		}
		if n, ok := ln.holds(ss.id, cl.Seq); ok {
			return ss.turn(c, cl, n)
		}
		place := ln.waits(ss.id, cl.Seq)
		if place < 0 { // busy, or gone: another attempt finds out
			return driver.Outcome{State: driver.Absent}, nil, nil
		}
		if _, ok := ln.joinable(ln.waiting[place]); ok { // another attempt joins it
			return driver.Outcome{State: driver.Absent}, nil, nil
		}
		if n, ok := ln.blocker(place); ok {
			ss.blocked(cl.Seq, n.name)
			wait, err = ss.watchNode(c, path+"/"+n.name)
		} else {
			wait, err = ss.watchQueue(c, path, path+"/"+pinName)
		}
		if wait != nil || err != nil {
			return out, wait, err
		}
	}
}

// blocked notes what a claim waits for.
func (ss *session) blocked(seq uint64, name string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if e, ok := ss.claims[seq]; ok {
		e.blocker = name
		ss.claims[seq] = e
	}
}

// turn answers for a claim whose turn has come.
func (ss *session) turn(c *call, cl *driver.Claim, n node) (driver.Outcome, *changed, error) {
	e, _ := ss.knownClaim(cl.Seq)
	e.node = n
	there, err := ss.tokenise(c, cl, &e)
	if err != nil || !there {
		return driver.Outcome{State: driver.Absent}, nil, err
	}
	if !ss.noteGrant(cl, e) {
		return driver.Outcome{State: driver.Absent}, nil, nil
	}
	return driver.Outcome{State: driver.Granted, Token: e.token}, nil, nil
}

// A watch is set once for all that wait for the same thing, and used until it has
// notified: the library cannot take one back, and a waiter that polls every few seconds
// would otherwise leave one behind each time. A channel sends to one receiver and is
// closed then, so it notifies all of them.

// watchNode signals when a node goes. It returns nil if it has gone.
func (ss *session) watchNode(c *call, path string) (*changed, error) {
	ch, _, err := ss.watch(c, "n"+path, func() (<-chan zk.Event, error) {
		_, _, ch, err := c.conn.GetW(path) // ExistsW would watch for a node that never comes back
		return ch, err
	})
	if ch == nil || err != nil {
		return nil, err
	}
	return &changed{a: ch}, nil
}

// getAndWatch reads a node, and sets the watch of watchNode unless there is one. A node that is
// not there has a nil stat.
func (ss *session) getAndWatch(c *call, path string) (data []byte, stat *zk.Stat, err error) {
	ch, fresh, err := ss.watch(c, "n"+path, func() (ch <-chan zk.Event, err error) {
		data, stat, ch, err = c.conn.GetW(path)
		return ch, err
	})
	if ch == nil || err != nil {
		return nil, nil, err
	}
	if !fresh {
		return c.get(path)
	}
	return data, stat, nil
}

// watchQueue signals when any claim comes or goes, or a child changes, such as the stored limit.
// It is for the claims that more than one node's end can help. It returns nil if a watch is new:
// it was set after the read, so another read is due.
func (ss *session) watchQueue(c *call, path, child string) (*changed, error) {
	claims, fresh1, err := ss.watch(c, "c"+path, func() (<-chan zk.Event, error) {
		_, _, ch, err := c.conn.ChildrenW(path)
		return ch, err
	})
	if err != nil {
		return nil, err
	}
	data, fresh2, err := ss.watch(c, "d"+child, func() (<-chan zk.Event, error) {
		_, _, ch, err := c.conn.GetW(child)
		return ch, err
	})
	if err != nil || fresh1 || fresh2 && data != nil {
		return nil, err
	}
	return &changed{claims, data}, nil // without the child there is nothing to watch but the queue
}

// watch returns the watch there is, or sets one. It returns no channel if there is
// nothing to watch.
func (ss *session) watch(c *call, key string, set func() (<-chan zk.Event, error)) (ch <-chan zk.Event, fresh bool, err error) {
	ss.mu.Lock()
	ch = ss.watches[key]
	ss.mu.Unlock()
	if ch != nil && !notified(ch) {
		return ch, false, nil
	}
	if err := c.over(); err != nil {
		return nil, false, err
	}
	ch, err = set()
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, true, nil
	case err != nil:
		return nil, false, c.failed(err)
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.watches[key] = ch
	if len(ss.watches) > ss.crowded {
		for key, ch := range ss.watches {
			if notified(ch) {
				delete(ss.watches, key)
			}
		}
		ss.crowded = 2*len(ss.watches) + fewWatches
	}
	return ch, true, nil
}

// fewWatches are not worth sweeping.
const fewWatches = 64

func notified(ch <-chan zk.Event) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// blocker returns the node whose end makes a read worthwhile for a queued claim, or
// false if any change of the queue may.
//
// An exclusive claim must wait for all claims before it, so the last of them is enough:
// as long as that one is there, nothing can be granted. A reader waits for the last
// writer before it. With limits, or when it could join a grant, any claim that leaves
// may be the one.
func (l *lockState) blocker(place int) (node, bool) {
	me, ahead := l.waiting[place], slices.Concat(l.granted, l.waiting[:place])
	limited := func(n node) bool { return n.limit > 0 }
	switch {
	case me.reentry != "" || len(ahead) == 0:
		return node{}, false
	case me.mode == driver.Exclusive:
		return ahead[len(ahead)-1], true
	case limited(me) || slices.ContainsFunc(ahead, limited):
		return node{}, false
	}
	for _, n := range slices.Backward(ahead) {
		if n.mode == driver.Exclusive {
			return n, true
		}
	}
	return node{}, false
}

// watchGrant begins to watch the queue behind a claim, if that is granted and has Watch.
func (ss *session) watchGrant(cl *driver.Claim, granted bool) {
	if granted && cl.Watch {
		ss.notices.Start(context.Background(), cl, func(ctx context.Context, seq uint64, name string) (bool, error) {
			return run(ss.again(ctx, "notify"), func(c *call) (bool, error) { return ss.queuedBehind(c, seq, name) })
		})
	}
}

// queuedBehind returns true when a claim waits for the lock, or another program has asked for its
// release, and false without an error if the grant is not there. A try that is not granted is not
// queued, or only for a moment.
func (ss *session) queuedBehind(c *call, seq uint64, name string) (bool, error) {
	path := ss.store.layout.lock(name)
	for {
		ln, err := ss.readLock(c, name)
		if err != nil {
			return false, err
		}
		n, held := ln.holds(ss.id, seq)
		if !held || len(ln.waiting) > 0 {
			return held, nil
		}
		child := path + "/" + pinName
		if !ss.store.layout.alone() {
			child = path + "/" + n.name
			if data, _, err := c.get(child); err != nil || string(data) == revocation {
				return err == nil, err
			}
		}
		wait, err := ss.watchQueue(c, path, child)
		if err != nil {
			return false, err
		}
		if wait == nil {
			continue // the watch is newer than the read
		}
		select {
		case <-wait.a:
		case <-wait.b:
		case <-ss.over:
			return false, c.gone()
		case <-c.ctx.Done():
			return false, c.over()
		}
	}
}
