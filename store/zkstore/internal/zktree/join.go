// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// join gives the claim the place and the token of the grant it re-enters, while that
// is there. Done is false if it has gone.
func (a *attempt) join(c *call, host node, old *node) (out driver.Outcome, done bool, err error) {
	parent := a.store.layout.lock(a.claim.Name)
	token, err := c.token(parent, host)
	if err != nil || token == 0 {
		return out, false, err
	}
	n := a.me
	n.place, n.token = host.place, token
	n.name = placed(a.store.layout, n)
	known, version := a.known()
	if known.refuses(a.claim.Seq) {
		return driver.Outcome{State: driver.Absent}, true, nil
	}
	ops := []any{
		&zk.CheckVersionRequest{Path: a.path, Version: version},
		&zk.CheckVersionRequest{Path: parent + "/" + host.name, Version: -1},
		&zk.CreateRequest{Path: parent + "/" + n.name, Acl: a.store.acl, Flags: zk.FlagEphemeral,
			Data: a.data()},
	}
	if old != nil {
		ops = append(ops, &zk.DeleteRequest{Path: parent + "/" + old.name, Version: -1})
	}
	_, at, refusal, err := c.multi(ops...)
	switch {
	case err != nil:
		return out, false, err
	case at == 0 && errors.Is(refusal, zk.ErrNoNode):
		a.end()
		return out, false, c.gone()
	case at == 0:
		known, err := a.refresh(c)
		if err != nil {
			return out, false, err
		}
		if known.refuses(a.claim.Seq) {
			return driver.Outcome{State: driver.Absent}, true, nil
		}
		return out, false, nil
	case at == 1, at > 2:
		return out, false, nil
	}
	// Made, or made before.
	a.note(a.claim.Seq, knownClaim{node: n, token: token, granted: true})
	return driver.Outcome{State: driver.Granted, Token: token}, true, nil
}

// downgrade replaces the claim's node by a shared one in its place, with its token.
// Waiters notice that a node goes.
func (a *attempt) downgrade(c *call, e *knownClaim) error {
	parent := a.store.layout.lock(a.claim.Name)
	n := a.me
	n.place, n.token = e.node.place, e.token
	n.name = placed(a.store.layout, n)
	old, shared := parent+"/"+e.node.name, !a.store.layout.alone()
	a.downgrades.Lock()
	defer a.downgrades.Unlock()
	if shared {
		a.outcomeUnknown(a.claim)
	}
	a.disown(old) // its deletion is reported before the answer
	_, at, refusal, err := c.multi(
		&zk.DeleteRequest{Path: old, Version: -1},
		&zk.CreateRequest{Path: parent + "/" + n.name, Acl: a.store.acl, Flags: zk.FlagEphemeral,
			Data: a.data()})
	if err != nil {
		return err
	}
	if at >= 0 {
		a.outcomeKnown(a.claim.Seq, e.node)
		if shared {
			a.adopt(old, a.claim.Seq)
		}
		if shared && at == 0 {
			a.deleted(old) // by another program, after disown
		}
		return c.failed(refusal) // the lock changed in between: read it again
	}
	e.node = n
	if shared {
		// The call may be over, and the node needs its watch.
		a.adopt(parent+"/"+n.name, a.claim.Seq)
		a.outcomeKnown(a.claim.Seq, n)
		go a.watchOwned(parent + "/" + n.name)
	}
	return nil
}
