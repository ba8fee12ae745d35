// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"
	"errors"
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// entry returns what is known of a claim.
func (l *link) entry(seq uint64) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.claims[seq]
	return e, ok
}

func (l *link) note(seq uint64, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims[seq] = e
}

func (l *link) dropClaim(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, seq)
	l.notices.End(seq)
}

// KeepAlive implements driver.Session.
func (l *link) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	return run(l.again(ctx, "keep alive"), func(c *call) (driver.Renewal, error) {
		_ = l.findOutcomes(c) // the next heartbeat tries again
		return l.keepAlive(c)
	})
}

// Withdraw implements driver.Session.
func (l *link) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if w.KeepFor > 0 {
		return unsupported[driver.Removed](ctx, l.store, "KeepFor")
	}
	if l.store.layout.refuses(w.Name) != nil { // so was the attempt
		return driver.WasAbsent, ctx.Err()
	}
	return run(l.call(ctx, "withdraw"), func(c *call) (driver.Removed, error) { return l.withdraw(c, w) })
}

func (l *link) withdraw(c *call, w driver.Withdrawal) (driver.Removed, error) {
	if err := l.findOutcomes(c); err != nil {
		return driver.WasAbsent, err
	}
	if err := l.leave(c, w.Seq); err != nil {
		return driver.WasAbsent, err
	}
	e, noted := l.entry(w.Seq)
	if noted && e.granted && !w.Tombstone {
		// Nothing but its own removal ends a grant, so there is no need to read.
		there, err := l.removeGranted(c, w, e)
		if err != nil {
			return driver.WasAbsent, err
		}
		l.dropClaim(w.Seq)
		if there {
			return driver.WasGranted, nil
		}
	}
	broken, err := l.strike(c, w)
	if err != nil {
		return driver.WasAbsent, err
	}
	found, err := l.removeAll(c, w)
	if err != nil {
		return driver.WasAbsent, err
	}
	l.dropClaim(w.Seq)
	if l.takenBack(w.Seq) || broken {
		return driver.WasBroken, nil
	}
	return found, nil
}

// removeGranted removes the node of a grant, and reports whether it was there. If it was not, and
// no removal was sent before, another program has removed it.
func (l *link) removeGranted(c *call, w driver.Withdrawal, e entry) (there bool, err error) {
	if err := c.over(); err != nil {
		return false, err
	}
	again := l.countRemoval(w.Seq, 1)
	there, err = l.removeOwn(c, l.store.layout.lock(w.Name)+"/"+e.node.name)
	switch {
	case err != nil && !errors.Is(err, driver.ErrUnknown): // nothing was done
		l.countRemoval(w.Seq, -1)
	case err == nil && !there && !again && !l.store.layout.alone():
		l.mu.Lock()
		l.owned.take(w.Seq)
		l.mu.Unlock()
	}
	return there, err
}

// countRemoval counts a removal of a claim's node before it is sent, or takes that back, and reports
// whether another one was sent.
func (l *link) countRemoval(seq uint64, n int) (another bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.claims[seq]
	if !ok {
		return true // it was done
	}
	another = e.leaving > 0
	e.leaving += n
	l.claims[seq] = e
	return another
}

// strike notes a tombstone in the record of the session, and takes a broken claim out
// of it, which it reports. With a tombstone the version of the record changes before
// the queue is read: an attempt that is still under way is either seen there, or
// its check of the version fails.
func (l *link) strike(c *call, w driver.Withdrawal) (broken bool, err error) {
	known, err := l.refresh(c)
	if err != nil {
		return false, err
	}
	if !w.Tombstone && !slices.Contains(known.Broken, w.Seq) {
		return slices.Contains(known.Withdrawn, w.Seq), nil
	}
	done, _, err := amend(c, l.path, func(r *record) {
		broken = slices.Contains(r.Withdrawn, w.Seq)
		if slices.Contains(r.Broken, w.Seq) {
			broken = true
			r.Withdrawn = append(r.Withdrawn, w.Seq)
		}
		r.Broken = slices.DeleteFunc(r.Broken, func(seq uint64) bool { return seq == w.Seq })
		if w.Tombstone && !slices.Contains(r.Tombstoned, w.Seq) {
			r.Tombstoned = append(r.Tombstoned, w.Seq)
		}
	})
	if err != nil {
		return false, err
	}
	if !done {
		l.end()
		return false, c.gone()
	}
	_, err = l.refresh(c)
	return broken, err
}

// removeAll removes every node of the claim, also those that this process does not
// know of because an answer was lost.
func (l *link) removeAll(c *call, w driver.Withdrawal) (driver.Removed, error) {
	if err := c.catchUp(l.store); err != nil {
		return driver.WasAbsent, err
	}
	ln, extra, err := l.readAllClaims(c, w.Name)
	if err != nil {
		return driver.WasAbsent, err
	}
	_, held := ln.holds(l.id, w.Seq)
	found := driver.WasAbsent
	for _, n := range slices.Concat(extra, ln.waiting, ln.granted) {
		if !n.is(l.id, w.Seq) {
			continue
		}
		there, err := l.removeOwn(c, l.store.layout.lock(w.Name)+"/"+n.name)
		switch {
		case err != nil:
			return driver.WasAbsent, err
		case there && held:
			found = driver.WasGranted
		case there:
			found = driver.WasQueued
		}
	}
	return found, nil
}

// Reclaim implements driver.Session. The ensemble loses nothing, so there is only
// to be confirmed what is there.
func (l *link) Reclaim(ctx context.Context, held []driver.Held, _ bool) ([]bool, error) {
	return run(l.again(ctx, "reclaim"), func(c *call) ([]bool, error) {
		if _, err := l.keepAlive(c); err != nil {
			return nil, err
		}
		kept := make([]bool, len(held))
		for i, h := range held {
			ln, err := l.readLock(c, h.Claim.Name)
			if err != nil {
				return nil, err
			}
			n, ok := ln.holds(l.id, h.Claim.Seq)
			if !ok {
				continue
			}
			e := entry{node: n}
			if _, err := l.tokenise(c, &h.Claim, &e); err != nil {
				return nil, err
			}
			if kept[i] = e.token == h.Token.Base() && l.noteGrant(&h.Claim, e); kept[i] {
				l.watchGrant(&h.Claim, true)
			}
		}
		return kept, nil
	})
}

// Close implements driver.Session. Ending the session of ZooKeeper removes every
// claim in one transaction.
func (l *link) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return l.store.errorf("close: %w", err)
	}
	l.mu.Lock()
	guest := l.open && !l.owner && !l.isOver
	l.mu.Unlock()
	if guest {
		if err := l.askToClose(ctx); err != nil {
			return err
		}
	}
	l.end()
	select {
	case <-l.wire.closed:
		return nil
	case <-ctx.Done():
		return l.store.errorf("close: %w: %w", driver.ErrUnknown, ctx.Err())
	case <-l.left:
	}
	l.mu.Lock()
	expired := l.expired
	l.mu.Unlock()
	select {
	case <-l.wire.closed:
		return nil
	default:
	}
	if expired {
		return nil
	}
	// The connection broke before the answer came. The ensemble ends the session
	// when it has not heard of it for its timeout.
	return l.store.vanished(ctx, l.path)
}

// askToClose makes the process that opened the session close it, and waits for that.
func (l *link) askToClose(ctx context.Context) error {
	_, err := run(l.call(ctx, "close"), func(c *call) (struct{}, error) {
		_, _, err := amend(c, l.path, func(r *record) { r.Closing = true })
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	return l.store.vanished(ctx, l.path)
}

// vanished waits until a node is not there.
func (s *Store) vanished(ctx context.Context, path string) error {
	c, err := s.aside(ctx, "close")
	if err != nil {
		return err
	}
	_, err = run(c, func(c *call) (struct{}, error) {
		for {
			if err := c.catchUp(s); err != nil {
				return struct{}{}, err
			}
			there, _, changed, err := c.conn.ExistsW(path)
			switch {
			case err != nil:
				return struct{}{}, c.failed(err)
			case !there:
				return struct{}{}, nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return struct{}{}, c.over()
			}
		}
	})
	return err
}

// Await implements driver.Session.
func (l *link) Await(ctx context.Context, cl *driver.Claim) (driver.Outcome, error) {
	out, err := run(l.again(ctx, "await"), func(c *call) (driver.Outcome, error) {
		wait, err := l.resume(c, cl)
		for {
			var out driver.Outcome
			if wait == nil && err == nil {
				out, wait, err = l.waitFor(c, cl)
			}
			if wait == nil || err != nil {
				return out, err
			}
			select {
			case <-wait.a:
			case <-wait.b:
			case <-l.over:
				return driver.Outcome{}, c.gone()
			case <-ctx.Done():
				return driver.Outcome{}, c.over()
			}
			wait = nil
		}
	})
	l.watchGrant(cl, err == nil && out.State == driver.Granted)
	return out, err
}
