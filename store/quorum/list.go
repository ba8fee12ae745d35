// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// reading is how far a listing has come. Its text is the cursor.
type reading struct {
	node    int      // the one that is read
	skipped vote.Set // those that could not be read to their end
	read    int      // how many were
	began   []int64  // when the reading of each node began, in Unix milliseconds, up to the one that is read
	cursor  string   // the node's own
}

func (r reading) String() string {
	began := make([]string, len(r.began))
	for n, at := range r.began {
		began[n] = strconv.FormatInt(at, 10)
	}
	return fmt.Sprintf("%d %d %d %s %s", r.node, r.skipped, r.read, strings.Join(began, ","), r.cursor)
}

// parseReading reads a cursor back.
func parseReading(cursor string) (r reading, err error) {
	if cursor == "" {
		return reading{}, nil
	}
	part := strings.SplitN(cursor, " ", 5)
	if len(part) == 5 {
		r.cursor = part[4]
		_, err = fmt.Sscan(strings.Join(part[:3], " "), &r.node, &r.skipped, &r.read)
		for _, text := range strings.Split(part[3], ",") {
			at, failed := strconv.ParseInt(text, 10, 64)
			r.began, err = append(r.began, at), errors.Join(err, failed)
		}
	}
	if len(part) < 5 || err != nil || r.node < 0 || len(r.began) < r.node {
		return r, fmt.Errorf("quorum: list: %q is not a cursor that List returned: %w", cursor, driver.ErrRefused)
	}
	return r, nil
}

// begin notes that the node is read, from now on if it was not before.
func (r *reading) begin(now time.Time) {
	if len(r.began) == r.node {
		r.began = append(r.began, now.UnixMilli())
	}
}

// shownBy returns the nodes that have shown a name before, given how long each has had something of it: a node that got it after
// it was read has not.
func (r *reading) shownBy(ages map[int]time.Duration, now time.Time) (nodes vote.Set) {
	for n, age := range ages {
		if n < r.node && !r.skipped.Has(n) && age.Milliseconds() >= now.UnixMilli()-r.began[n] {
			nodes = nodes.With(n)
		}
	}
	return nodes
}

// next moves on to the next node.
func (r *reading) next() { r.node, r.cursor = r.node+1, "" }

// List implements driver.Store. A lock that is held is on a majority, so it is on one
// of any nodes that are as many as the largest minority and one more: so many are read
// to their end, one after the other, and a node that fails is replaced by another. A
// lock is shown with the first of them that has it. If a node fails in the middle,
// what was shown of it may be shown again.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	if err := ctx.Err(); err != nil {
		return driver.Page{}, errNotStarted("list", err)
	}
	at, err := parseReading(q.Cursor)
	if err != nil {
		return driver.Page{}, err
	}
	if q.Cursor == "" {
		s.quiet(ctx)
	}
	enough := len(s.nodes) - s.majority() + 1
	var failed errs
	for ; at.node < len(s.nodes); at.next() {
		at.begin(time.Now())
		part, err := s.list1(ctx, at.node, driver.ListQuery{Prefix: q.Prefix, Cursor: at.cursor, Max: q.Max})
		if ctx.Err() != nil {
			return driver.Page{}, errCanceled("list", ctx.Err())
		}
		if err != nil {
			failed.add(s.nodes[at.node].Name, err)
			at.skipped = at.skipped.With(at.node)
			if len(s.nodes)-at.skipped.Len() < enough {
				break
			}
			continue
		}
		page, err := s.shown(ctx, at, part.Locks)
		if err != nil {
			return driver.Page{}, err
		}
		if at.cursor = part.Next; at.cursor == "" {
			at.read++
			at.next()
		}
		if at.read < enough {
			page.Next = at.String()
		}
		return page, nil
	}
	return driver.Page{}, failed.err("list")
}

// quiet waits for attempts of this process that have won and are still on their way to nodes
// that answer: a node that they reach only after it was listed would hide them.
func (s *Store) quiet(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, s.opts.NodeTimeout)
	defer cancel()
	for {
		changed := s.underWay()
		if changed == nil {
			return
		}
		select {
		case <-changed:
		case <-wait.Done():
			return
		}
	}
}

// underWay returns a channel that is closed when a claim that has won and still has a call
// in flight to a node that answers changes, or nil if there is no such claim.
func (s *Store) underWay() <-chan struct{} {
	answer := s.health.worth(s.majority())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.sessions {
		b.mu.Lock()
		for _, w := range b.requests {
			for n := range w.slots {
				if w.won && answer.Has(n) && w.slots[n].Busy() {
					defer b.mu.Unlock()
					return w.changeLocked()
				}
			}
		}
		b.mu.Unlock()
	}
	return nil
}

func (s *Store) list1(ctx context.Context, n int, q driver.ListQuery) (driver.Page, error) {
	bound, cancel := context.WithTimeout(ctx, s.opts.NodeTimeout)
	defer cancel()
	page, err := s.nodes[n].Store.List(bound, q)
	s.health.answered(n, err)
	return page, err
}

// shown are the locks of a node's page that are held or waited for on a majority,
// and that no node has shown that was read before this one.
func (s *Store) shown(ctx context.Context, at reading, locks []driver.Status) (page driver.Page, err error) {
	for _, one := range locks {
		if strings.HasPrefix(one.Name, reserved) {
			continue
		}
		// The time is read before the ages. A lock that was acquired right before the listing would be on two pages otherwise; so
		// one that an earlier node gets within the time of this call after it was read is on none.
		now := time.Now()
		st, ages, err := s.inspect(ctx, one.Name)
		if err != nil {
			return driver.Page{}, err
		}
		if at.shownBy(ages, now) == 0 && (len(st.Holders) > 0 || st.Waiting > 0) {
			page.Locks = append(page.Locks, st)
		}
	}
	return page, nil
}
