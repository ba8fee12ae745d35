// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"
	"errors"
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// knownClaim returns what is known of a claim.
func (ss *session) knownClaim(seq uint64) (knownClaim, bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	e, ok := ss.claims[seq]
	return e, ok
}

func (ss *session) note(seq uint64, e knownClaim) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.claims[seq] = e
}

func (ss *session) dropClaim(seq uint64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.claims, seq)
	ss.notices.End(seq)
}

// Withdraw implements driver.Session.
func (ss *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if w.KeepFor > 0 {
		return unsupported[driver.Removed](ctx, ss.store, "KeepFor")
	}
	if ss.store.layout.refuses(w.Name) != nil { // so was the attempt
		return driver.WasAbsent, ctx.Err()
	}
	return run(ss.call(ctx, "withdraw"), func(c *call) (driver.Removed, error) { return ss.withdraw(c, w) })
}

func (ss *session) withdraw(c *call, w driver.Withdrawal) (driver.Removed, error) {
	if err := ss.findOutcomes(c); err != nil {
		return driver.WasAbsent, err
	}
	if err := ss.leave(c, w.Seq); err != nil {
		return driver.WasAbsent, err
	}
	e, noted := ss.knownClaim(w.Seq)
	if noted && e.granted && !w.Tombstone {
		// Nothing but its own removal ends a grant, so there is no need to read.
		there, err := ss.removeGranted(c, w, e)
		if err != nil {
			return driver.WasAbsent, err
		}
		ss.dropClaim(w.Seq)
		if there {
			return driver.WasGranted, nil
		}
	}
	broken, err := ss.strike(c, w)
	if err != nil {
		return driver.WasAbsent, err
	}
	found, err := ss.removeAll(c, w)
	if err != nil {
		return driver.WasAbsent, err
	}
	ss.dropClaim(w.Seq)
	if ss.takenBack(w.Seq) || broken {
		return driver.WasBroken, nil
	}
	return found, nil
}

// removeGranted removes the node of a grant, and reports whether it was there. If it was not, and
// no removal was sent before, another program has removed it.
func (ss *session) removeGranted(c *call, w driver.Withdrawal, e knownClaim) (there bool, err error) {
	if err := c.over(); err != nil {
		return false, err
	}
	again := ss.countRemoval(w.Seq, 1)
	there, err = ss.removeOwn(c, ss.store.layout.lock(w.Name)+"/"+e.node.name)
	switch {
	case err != nil && !errors.Is(err, driver.ErrUnknown): // nothing was done
		ss.countRemoval(w.Seq, -1)
	case err == nil && !there && !again && !ss.store.layout.alone():
		ss.mu.Lock()
		ss.watched.take(w.Seq)
		ss.mu.Unlock()
	}
	return there, err
}

// countRemoval counts a removal of a claim's node before it is sent, or takes that back, and reports
// whether another one was sent.
func (ss *session) countRemoval(seq uint64, n int) (another bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	e, ok := ss.claims[seq]
	if !ok {
		return true // it was done
	}
	another = e.leaving > 0
	e.leaving += n
	ss.claims[seq] = e
	return another
}

// strike notes a tombstone in the record of the session, and takes a broken claim out
// of it, which it reports. With a tombstone the version of the record changes before
// the queue is read: an attempt that is still under way is either seen there, or
// its check of the version fails.
func (ss *session) strike(c *call, w driver.Withdrawal) (broken bool, err error) {
	known, err := ss.refresh(c)
	if err != nil {
		return false, err
	}
	if !w.Tombstone && !slices.Contains(known.Broken, w.Seq) {
		return slices.Contains(known.Withdrawn, w.Seq), nil
	}
	done, _, err := amend(c, ss.path, func(r *record) {
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
		ss.end()
		return false, c.gone()
	}
	_, err = ss.refresh(c)
	return broken, err
}

// removeAll removes every node of the claim, also those that this process does not
// know of because an answer was lost.
func (ss *session) removeAll(c *call, w driver.Withdrawal) (driver.Removed, error) {
	if err := c.catchUp(ss.store); err != nil {
		return driver.WasAbsent, err
	}
	ln, extra, err := ss.readAllClaims(c, w.Name)
	if err != nil {
		return driver.WasAbsent, err
	}
	_, held := ln.holds(ss.id, w.Seq)
	found := driver.WasAbsent
	for _, n := range slices.Concat(extra, ln.waiting, ln.granted) {
		if !n.is(ss.id, w.Seq) {
			continue
		}
		there, err := ss.removeOwn(c, ss.store.layout.lock(w.Name)+"/"+n.name)
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
func (ss *session) Reclaim(ctx context.Context, held []driver.Held, _ bool) ([]bool, error) {
	return run(ss.again(ctx, "reclaim"), func(c *call) ([]bool, error) {
		if _, err := ss.keepAlive(c); err != nil {
			return nil, err
		}
		kept := make([]bool, len(held))
		for i, h := range held {
			ln, err := ss.readLock(c, h.Claim.Name)
			if err != nil {
				return nil, err
			}
			n, ok := ln.holds(ss.id, h.Claim.Seq)
			if !ok {
				continue
			}
			e := knownClaim{node: n}
			if _, err := ss.tokenise(c, &h.Claim, &e); err != nil {
				return nil, err
			}
			if kept[i] = e.token == h.Token.Base() && ss.noteGrant(&h.Claim, e); kept[i] {
				ss.watchGrant(&h.Claim, true)
			}
		}
		return kept, nil
	})
}
