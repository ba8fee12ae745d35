// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// Inspect implements driver.Store. The age of a holder counts from when it was
// queued, by the clocks of the leader and of this process; its end is the latest it can
// be.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := s.layout.refuses(name); err != nil {
		return driver.Status{}, s.errorf("inspect: %w", err)
	}
	c, err := s.sessionlessCall(ctx, "inspect")
	if err != nil {
		return driver.Status{}, err
	}
	c.again = true
	return run(c, func(c *call) (driver.Status, error) {
		if err := c.catchUp(s); err != nil {
			return driver.Status{}, err
		}
		return s.status(c, name)
	})
}

func (s *Store) status(c *call, name string) (driver.Status, error) {
	ln, _, _, err := c.readLock(s, name)
	if err := cmp.Or(err, ln.strange); err != nil {
		return driver.Status{}, err
	}
	st := driver.Status{Name: name, Waiting: len(ln.waiting), Limit: ln.limit.Limit}
	path := s.layout.lock(name)
	for _, n := range ln.granted {
		h, ok, err := c.holder(c.get, s, path, ln, n)
		if err != nil {
			return driver.Status{}, err
		}
		if ok {
			st.Holders = append(st.Holders, h)
		}
	}
	for _, n := range ln.waiting[:min(len(ln.waiting), driver.MaxWaitersReported)] {
		w, ok, err := c.waiter(path, n)
		if err != nil {
			return driver.Status{}, err
		}
		if ok {
			st.Waiters = append(st.Waiters, w)
		}
	}
	return st, nil
}

// List implements driver.Store.
func (s *Store) List(ctx context.Context, q driver.ListQuery) (driver.Page, error) {
	if !s.Caps().Listing {
		return driver.Page{}, s.errorf("list: %w: the names of locks cannot be found from their paths", driver.ErrUnsupported)
	}
	c, err := s.sessionlessCall(ctx, "list")
	if err != nil {
		return driver.Page{}, err
	}
	c.again = true
	return run(c, func(c *call) (driver.Page, error) {
		if err := c.catchUp(s); err != nil {
			return driver.Page{}, err
		}
		return s.layout.list(c, s, q)
	})
}

// list goes through the buckets one after the other; the cursor is the bucket and the last name
// shown.
func (n nativeLayout) list(c *call, s *Store, q driver.ListQuery) (driver.Page, error) {
	var page driver.Page
	from, after, _ := strings.Cut(q.Cursor, " ")
	buckets, _, err := c.children(n.locks())
	if err != nil {
		return page, err
	}
	slices.Sort(buckets)
	for _, b := range buckets {
		if b < from {
			continue
		}
		if b != from {
			after = ""
		}
		if full, err := s.listBucket(c, b, after, q, &page); full || err != nil {
			return page, err
		}
	}
	page.Next = ""
	return page, nil
}

// listBucket adds the locks of a bucket to a page, until it is full.
func (s *Store) listBucket(c *call, bucket, after string, q driver.ListQuery, page *driver.Page) (full bool, err error) {
	nodes, _, err := c.children(s.paths.bucket(bucket))
	if err != nil {
		return false, err
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		name, ok := unescape(node)
		if !ok || node <= after || !strings.HasPrefix(name, q.Prefix) {
			continue
		}
		if len(page.Locks) == q.Max {
			return true, nil
		}
		st, err := s.status(c, name)
		if err != nil {
			return false, err
		}
		if len(st.Holders) > 0 || st.Waiting > 0 {
			page.Locks = append(page.Locks, st)
			page.Next = bucket + " " + node
		}
	}
	return false, nil
}

// Break implements driver.Store. It removes the claims with that token together with
// a note in the record of each session.
//
// The fence lies below the first in the queue, whose token is fixed already, and above
// the claims granted before; without a queue it lies above everything that has
// happened to the lock. Breaking two readers in front of the same writer gives the
// same fence twice.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	if err := s.layout.refuses(name); err != nil {
		return 0, s.errorf("break: %w", err)
	}
	c, err := s.sessionlessCall(ctx, "break")
	if err != nil {
		return 0, err
	}
	return run(c, func(c *call) (driver.Token, error) {
		if err := c.catchUp(s); err != nil {
			return 0, err
		}
		ln, _, stat, err := c.readLock(s, name)
		if err != nil {
			return 0, err
		}
		var broken []node
		for _, n := range ln.granted {
			t, err := c.token(s.layout.lock(name), n)
			if err == nil {
				t, err = c.order(s.layout.lock(name), ln, n, t)
			}
			if err != nil {
				return 0, err
			}
			if t != 0 && t == token.Base() {
				broken = append(broken, n)
			}
		}
		if len(broken) == 0 {
			return 0, s.errorf("%q with token %v: %w", name, token, driver.ErrNotHeld)
		}
		fence, err := s.fence(c, name, ln, stat)
		if err != nil {
			return 0, err
		}
		for _, n := range broken {
			if err := s.breakClaim(c, name, n); err != nil {
				return 0, err
			}
		}
		return fence, nil
	})
}

// fence returns a token above all that were granted and below all that will be.
func (s *Store) fence(c *call, name string, ln lockState, stat *zk.Stat) (driver.Token, error) {
	for _, n := range ln.waiting {
		st, err := c.stat(s.layout.lock(name) + "/" + n.name)
		if err != nil {
			return 0, err
		}
		if st == nil {
			continue // left the queue
		}
		if _, err := c.tokenOf(st.Czxid); err != nil {
			return 0, err
		}
		return fenceBelow(st.Czxid), nil
	}
	if _, err := c.tokenOf(stat.Pzxid); err != nil {
		return 0, err
	}
	return fenceAbove(stat.Pzxid), nil
}

// breakClaim removes a claim and notifies its session.
func (s *Store) breakClaim(c *call, name string, n node) error {
	remove := &zk.DeleteRequest{Path: s.layout.lock(name) + "/" + n.name, Version: -1}
	if n.foreign {
		_, err := c.remove(remove.Path)
		return err
	}
	done, refusal, err := amend(c, s.paths.session(n.session), func(r *record) {
		if !slices.Contains(r.Broken, n.seq) {
			r.Broken = append(r.Broken, n.seq)
		}
	}, remove)
	if done || refusal != nil || err != nil {
		return err // a refusal: the claim went by itself
	}
	_, err = c.remove(remove.Path) // there is no session to notify any more
	return err
}

// SetLimit implements driver.Store. The limit is in a child of the lock, which also
// keeps the ensemble from removing the lock's node while the lock is free.
func (s *Store) SetLimit(ctx context.Context, name string, most int64) error {
	if most < 0 {
		return s.errorf("limit %d is below 0: %w", most, driver.ErrRefused)
	}
	if !s.layout.alone() {
		return s.errorf("set limit: %w: other programs count every child of a lock", driver.ErrUnsupported)
	}
	c, err := s.sessionlessCall(ctx, "set limit")
	if err != nil {
		return err
	}
	_, err = run(c, func(c *call) (struct{}, error) {
		if err := c.catchUp(s); err != nil {
			return struct{}{}, err
		}
		for try := 1; ; try++ {
			done, err := s.storeLimit(c, name, most, try <= exactTries)
			if done || err != nil {
				return struct{}{}, err
			}
		}
	})
	return err
}

// exactTries is how often SetLimit insists that the queue has not changed. One that
// changes faster than this process can read it would keep it from ever being done.
const exactTries = 10

// storeLimit is one try. What is granted now stays granted. An exact one is refused if
// the queue is another one by then: a claim came, which writes to the lock's node, or one
// left. Otherwise a claim that the old limit has let in since the read may show as
// waiting until it fits the new one. It blocks those behind it as it does when it is
// counted, so no more than the old limit is ever granted together.
func (s *Store) storeLimit(c *call, name string, most int64, exact bool) (done bool, err error) {
	ln, _, stat, err := c.readLock(s, name)
	switch {
	case err != nil:
		return false, err
	case most == 0 && !ln.pinned:
		return true, nil
	case stat == nil:
		return false, s.layout.makeLock(c, s, name)
	}
	lim := limit{Limit: most}
	if n := len(ln.granted); n > 0 {
		lim.Upto = &ln.granted[n-1].place
	}
	pin := s.layout.lock(name) + "/" + pinName
	var op any = &zk.SetDataRequest{Path: pin, Data: encode(&lim), Version: -1}
	switch {
	case !ln.pinned:
		op = &zk.CreateRequest{Path: pin, Data: encode(&lim), Acl: s.acl, Flags: zk.FlagPersistent}
	case most == 0 && lim.Upto == nil: // otherwise it is needed to know who was granted
		op = &zk.DeleteRequest{Path: pin, Version: -1}
	}
	ops := []any{op}
	if exact {
		ops = append(ops, &zk.CheckVersionRequest{Path: s.layout.lock(name), Version: stat.Version})
		for _, n := range slices.Concat(ln.granted, ln.waiting) {
			ops = append(ops, &zk.CheckVersionRequest{Path: s.layout.lock(name) + "/" + n.name, Version: -1})
		}
	}
	_, at, _, err := c.multi(ops...)
	return at < 0, err
}
