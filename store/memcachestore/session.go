// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// graveSeconds is how long a free item stays after a tombstone where there was none.
const graveSeconds = 600

// session is one generation of a session, as the process that opened it knows it.
type session struct {
	store      *Store
	id         string
	generation string
	ttl        time.Duration

	graves graves
}

// graves are when the tombstones of a session were first seen by its process.
type graves struct {
	mu    sync.Mutex
	since map[uint64]time.Time
}

// add adds a claim to the tombstones of a session item, and leaves out those that are older than a free item with a
// tombstone gets: a later write of their claims would be stored anyway. A session that lives for months would
// otherwise fill its item, which each call reads. The item has no times: clocks differ, and only this process
// writes it.
func (g *graves) add(tombstoned []uint64, claim uint64, now time.Time) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := map[uint64]time.Time{claim: now}
	kept := []uint64{}
	for _, seq := range tombstoned {
		seen, ok := g.since[seq]
		if !ok {
			seen = now // of a session value before this one
		}
		if now.Sub(seen) <= graveSeconds*time.Second {
			since[seq] = seen
			kept = append(kept, seq)
		}
	}
	g.since = since
	return append(kept, claim)
}

func (s *session) key() string { return s.store.keys.session(s.id) }

// open begins a generation of the session, or finds the one there is.
func (s *session) open(c *call) (string, error) {
	fresh := sessionItem{Generation: rand.Text(), TTL: s.ttl.Milliseconds()}
	for {
		if ok, err := c.write(s.key(), nil, &fresh, seconds(s.ttl)); ok || err != nil {
			return fresh.Generation, err
		}
		raw, err := c.touch(s.key(), seconds(s.ttl))
		if err != nil {
			return "", err
		}
		if raw == nil {
			continue // it ended in between
		}
		found, err := parse[sessionItem](raw)
		return found.v.Generation, err
	}
}

func (s *session) gone() error {
	return fmt.Errorf("memcachestore: session %s has ended, or memcached lost it (eviction, restart): %w", s.id, driver.ErrGone)
}

// KeepAlive implements driver.Session.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	return run(ctx, s.store, "keep alive", func(c *call) (driver.Renewal, error) {
		raw, err := c.touch(s.key(), seconds(s.ttl))
		if err != nil {
			return driver.Renewal{}, err
		}
		own, err := parse[sessionItem](raw)
		switch {
		case err != nil:
			return driver.Renewal{}, err
		case raw == nil || own.v.Generation != s.generation:
			return driver.Renewal{}, s.gone()
		}
		return driver.Renewal{TTL: s.ttl}, nil
	})
}

// readLock reads the session and a lock. The session must live.
func (s *session) readLock(c *call, name string) (own item[sessionItem], lock item[lockItem], err error) {
	items, err := c.read(s.key(), s.store.keys.lock(name))
	if err != nil {
		return own, lock, err
	}
	if own, err = parse[sessionItem](items[s.key()]); err != nil {
		return own, lock, err
	}
	if own.raw == nil || own.v.Generation != s.generation {
		return own, lock, s.gone()
	}
	if err := swappable(own.raw); err != nil {
		return own, lock, err
	}
	lock, err = parse[lockItem](items[s.store.keys.lock(name)])
	return own, lock, err
}

func (s *session) owner(claim uint64) owner { return owner{s.id, s.generation, claim} }

// Attempt implements driver.Session. A claim that is not granted is busy: there is
// no queue.
func (s *session) Attempt(ctx context.Context, cl *driver.Claim) (driver.Outcome, error) {
	if t := cl.Terms; t.Mode != driver.Exclusive || t.Reentry != "" || t.MinHold > 0 || t.MaxHold > 0 {
		return unsupported[driver.Outcome](ctx, "attempt of a shared, re-entrant or held claim")
	}
	return run(ctx, s.store, "attempt", func(c *call) (driver.Outcome, error) {
		for {
			out, decided, err := s.try(c, cl)
			if decided || err != nil {
				return out, err
			}
			// The item changed after it was read: another caller was faster, try again.
		}
	})
}

// try is one read and at most one write.
func (s *session) try(c *call, cl *driver.Claim) (out driver.Outcome, decided bool, err error) {
	own, lock, err := s.readLock(c, cl.Name)
	if err != nil {
		return out, false, err
	}
	switch {
	case own.v.tombstoned(cl.Seq):
		return driver.Outcome{State: driver.Absent}, true, nil
	case lock.raw != nil && lock.v.owner() == s.owner(cl.Seq):
		return driver.Outcome{State: driver.Granted}, true, nil
	}
	h, err := s.store.holder(c, lock)
	if err != nil {
		return out, false, err
	}
	if h != nil {
		return driver.Outcome{State: driver.Busy, Holders: []driver.Holder{*h}, PollAfter: h.EndsIn}, true, nil
	}
	mine := lockItem{Name: cl.Name, Session: s.id, Generation: s.generation, Claim: cl.Seq, Since: time.Now().UnixMilli(), Record: cl.Terms.Record}
	ok, err := c.write(s.store.keys.lock(cl.Name), lock.raw, &mine, 0)
	return driver.Outcome{State: driver.Granted}, ok, err
}

// Await implements driver.Session. Nothing is pushed, so it returns at once.
func (s *session) Await(ctx context.Context, _ *driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, fmt.Errorf("memcachestore: await: %w", err)
	}
	return driver.Outcome{State: driver.Busy, PollAfter: s.ttl}, nil
}

// Withdraw implements driver.Session. It does not ask whether the session lives: if
// the item is still this claim's, no other claim had the lock in between.
func (s *session) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if w.KeepFor > 0 {
		return unsupported[driver.Removed](ctx, "keeping a lock after its withdrawal")
	}
	return run(ctx, s.store, "withdraw", func(c *call) (driver.Removed, error) {
		if w.Tombstone {
			if err := s.tombstone(c, w.Seq); err != nil {
				return driver.WasAbsent, err
			}
		}
		for {
			found, done, err := s.clear(c, w)
			if done || err != nil {
				return found, err
			}
		}
	})
}

// tombstone notes in the session item that the claim must not be granted any more. It
// gives the session a full TTL again, which no caller relies on.
func (s *session) tombstone(c *call, claim uint64) error {
	for {
		items, err := c.read(s.key())
		if err != nil {
			return err
		}
		own, err := parse[sessionItem](items[s.key()])
		switch {
		case err != nil:
			return err
		case own.raw == nil || own.v.Generation != s.generation:
			return s.gone() // with its session the claim is over, too
		case own.v.tombstoned(claim):
			return nil
		}
		own.v.Tombstoned = s.graves.add(own.v.Tombstoned, claim, time.Now())
		if ok, err := c.write(s.key(), own.raw, &own.v, seconds(s.ttl)); ok || err != nil {
			return err
		}
	}
}

// clear removes the lock item if it is this claim's. For a tombstone it always writes,
// so that no write decided before it can be stored after it.
func (s *session) clear(c *call, w driver.Withdrawal) (found driver.Removed, done bool, err error) {
	key := s.store.keys.lock(w.Name)
	items, err := c.read(key)
	if err != nil {
		return found, false, err
	}
	lock, err := parse[lockItem](items[key])
	if err != nil {
		return found, false, err
	}
	mine := lock.raw != nil && lock.v.owner() == s.owner(w.Seq)
	if mine {
		found = driver.WasGranted
	}
	exp := int32(-1) // removes it
	switch {
	case !mine && !w.Tombstone:
		return found, true, nil
	case w.Tombstone && (mine || lock.raw == nil || lock.v.free()):
		exp = graveSeconds
	case w.Tombstone:
		done, err = c.write(key, lock.raw, &lock.v, 0) // theirs, as it was
		return found, done, err
	}
	done, err = c.write(key, lock.raw, &lockItem{Name: w.Name}, exp)
	return found, done, err
}

// Reclaim implements driver.Session. It only confirms what is there: after a data
// loss there is no grace in which anything could be put back.
func (s *session) Reclaim(ctx context.Context, held []driver.Held, _ bool) ([]bool, error) {
	return run(ctx, s.store, "reclaim", func(c *call) ([]bool, error) {
		kept := make([]bool, len(held))
		for i, h := range held {
			_, lock, err := s.readLock(c, h.Claim.Name)
			if err != nil {
				return nil, err
			}
			kept[i] = lock.raw != nil && lock.v.owner() == s.owner(h.Claim.Seq)
		}
		return kept, nil
	})
}

// Close implements driver.Session. With the session item gone its locks are free.
func (s *session) Close(ctx context.Context) error {
	_, err := run(ctx, s.store, "close", func(c *call) (struct{}, error) { return struct{}{}, c.remove(s.key()) })
	return err
}
