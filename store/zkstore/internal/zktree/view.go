// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// readLock reads a lock: the queued claims, and the stored limit if there is one.
func (c *call) readLock(s *Store, name string) (ln lockState, extra []node, stat *zk.Stat, err error) {
	path := s.layout.lock(name)
	children, stat, err := c.children(path)
	if err != nil {
		return lockState{}, nil, nil, err
	}
	claims, extra, strange := s.layout.arrange(children)
	var lim limit
	pinned := s.layout.alone() && slices.Contains(children, pinName)
	if pinned {
		data, st, err := c.get(path + "/" + pinName)
		if err != nil {
			return lockState{}, nil, nil, err
		}
		if st != nil {
			if err := json.Unmarshal(data, &lim); err != nil {
				return lockState{}, nil, nil, c.errorf("%s/%s holds no limit of this layout: %w", path, pinName, err)
			}
		}
	}
	ln = evaluate(claims, lim)
	ln.pinned = pinned
	if strange != nil {
		ln.strange = c.errorf("%s: %w", path, strange)
	}
	return ln, extra, stat, nil
}

func (ss *session) readLock(c *call, name string) (lockState, error) {
	ln, _, _, err := c.readLock(ss.store, name)
	return ln, err
}

func (ss *session) readAllClaims(c *call, name string) (lockState, []node, error) {
	ln, extra, _, err := c.readLock(ss.store, name)
	return ln, extra, err
}

// stat returns what ZooKeeper has of a node, nil if it is not there.
func (c *call) stat(path string) (*zk.Stat, error) {
	if err := c.over(); err != nil {
		return nil, err
	}
	there, stat, err := c.conn.Exists(path)
	switch {
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return nil, c.failed(err)
	case !there:
		return nil, nil
	}
	return stat, nil
}

// token returns the token of a claim, 0 if it has gone.
func (c *call) token(parent string, n node) (driver.Token, error) {
	if n.token != 0 {
		return n.token, nil
	}
	stat, err := c.stat(parent + "/" + n.name)
	if err != nil || stat == nil {
		return 0, err
	}
	return c.tokenOf(stat.Czxid)
}

// order returns the token that shows where a granted claim stands. It is the one given, unless the
// claim is a reader of another program that is younger than claims behind it: Java acquired it under
// its own write lock. The token is then that of the writer. If the writer has gone, it is the highest
// one below the queue, so that Break fences it and not the next in the queue.
func (c *call) order(parent string, ln lockState, n node, token driver.Token) (driver.Token, error) {
	if token == 0 || !n.foreign || n.mode != driver.Shared {
		return token, nil
	}
	for _, w := range ln.granted {
		if w.place == n.place && w.mode == driver.Exclusive {
			writer, err := c.token(parent, w)
			if err != nil || writer != 0 {
				return writer, err
			}
		}
	}
	for _, w := range ln.waiting {
		next, err := c.token(parent, w)
		if err != nil {
			return 0, err
		}
		if next != 0 {
			return min(token, next-tokenStep), nil
		}
	}
	return token, nil
}

// tokenOf is tokenOf with an error of the call.
func (c *call) tokenOf(czxid int64) (driver.Token, error) {
	token, err := tokenOf(czxid)
	if err != nil {
		err = c.errorf("%w", err)
	}
	return token, err
}

// holder shows a granted claim. ok is false if it has gone. ZooKeeper notes neither
// when a claim was granted nor when a session will end, and its time is that of the
// leader: Age counts from queueing, by two clocks, and EndsIn is the most it
// can be. Of a claim of another program that is the longest timeout of a session.
func (c *call) holder(get getter, s *Store, parent string, ln lockState, n node) (h driver.Holder, ok bool, err error) {
	data, stat, err := get(parent + "/" + n.name)
	if err != nil || stat == nil {
		return h, false, err
	}
	d := parseClaim(data, n.foreign)
	if d.TTL == 0 {
		d.TTL = (s.opts.MaxTTL * 4 / 3).Milliseconds()
	}
	token := n.token
	if token == 0 {
		if token, err = c.tokenOf(stat.Czxid); err == nil {
			token, err = c.order(parent, ln, n, token)
		}
		if err != nil {
			return h, false, err
		}
	}
	h = driver.Holder{
		Claim: n.claimID(), Token: token, Mode: n.mode, Weight: n.weight, Reentry: d.Reentry,
		Age: age(stat), EndsIn: time.Duration(d.TTL) * time.Millisecond, Linger: time.Duration(d.Linger) * time.Millisecond,
	}
	if d.Record != nil {
		h.Record = *d.Record
	}
	return h, true, nil
}

// waiter shows a queued claim.
func (c *call) waiter(parent string, n node) (w driver.Waiter, ok bool, err error) {
	data, stat, err := c.get(parent + "/" + n.name)
	if err != nil || stat == nil {
		return w, false, err
	}
	w = driver.Waiter{Claim: n.claimID(), Mode: n.mode, Weight: n.weight, Age: age(stat)}
	if d := parseClaim(data, n.foreign); d.Record != nil {
		w.Record = *d.Record
	}
	return w, true, nil
}

func age(stat *zk.Stat) time.Duration { return max(0, time.Since(time.UnixMilli(stat.Ctime))) }

func (n node) claimID() driver.ClaimID {
	id := driver.ClaimID{Seq: n.seq}
	if raw, err := hex.DecodeString(n.session); err == nil {
		copy(id.Session[:], raw)
	}
	return id
}

// parseClaim reads what a claim's node holds. What cannot be read is not shown. Other programs
// write a text: Curator the address of the process, or the id that it was given.
func parseClaim(data []byte, foreign bool) (d claimData) {
	if foreign || string(data) == revocation {
		text := data[:min(len(data), maxOwner)]
		return claimData{Record: &driver.Record{Owner: strings.ToValidUTF8(string(text), "?")}}
	}
	_ = json.Unmarshal(data, &d)
	return d
}

// maxOwner is how much of the text of another program is shown.
const maxOwner = 256

// getter reads a node, as call.get does.
type getter = func(path string) ([]byte, *zk.Stat, error)
