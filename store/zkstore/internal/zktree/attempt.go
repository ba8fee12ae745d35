// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// claimData is what the node of a claim holds: what people and tools want to know,
// nothing that decides about grants.
type claimData struct {
	Record  *driver.Record `json:"record,omitempty"`
	Reentry string         `json:"reentry,omitempty"`
	TTL     int64          `json:"ttl"`              // of its session, in milliseconds
	Linger  int64          `json:"linger,omitempty"` // how long its holder may linger, in milliseconds
}

// Attempt implements driver.Session.
func (ss *session) Attempt(ctx context.Context, cl *driver.Claim) (driver.Outcome, error) {
	if cl.Terms.MinHold > 0 || cl.Terms.MaxHold > 0 {
		return unsupported[driver.Outcome](ctx, ss.store, "MinHold and MaxHold")
	}
	if err := errors.Join(ss.store.layout.refuses(cl.Name), ss.store.layout.unfit(cl.Terms)); err != nil {
		return driver.Outcome{}, ss.store.errorf("attempt: %w", err)
	}
	a := &attempt{session: ss, claim: cl, me: describe(ss.id, cl)}
	out, err := run(ss.again(ctx, "attempt"), a.make)
	ss.watchGrant(cl, err == nil && out.State == driver.Granted)
	return out, err
}

func (ss *session) call(ctx context.Context, op string) *call {
	return &call{ctx: ctx, pkg: ss.store.opts.Package, conn: ss.conn, session: ss, op: op}
}

// again returns a call that may be made again.
func (ss *session) again(ctx context.Context, op string) *call {
	c := ss.call(ctx, op)
	c.again = true
	return c
}

// attempt is one attempt of one claim.
type attempt struct {
	*session
	claim *driver.Claim
	me    node
}

func (a *attempt) make(c *call) (driver.Outcome, error) {
	e, noted := a.knownClaim(a.claim.Seq)
	switch {
	case a.refuses(a.claim.Seq):
		return driver.Outcome{State: driver.Absent}, nil
	case noted:
		return a.retry(c, e)
	case !a.claim.Queue || a.me.reentry != "":
		if out, done, err := a.readFirst(c); done || err != nil {
			return out, err
		}
	}
	e, ln, refused, err := a.create(c)
	switch {
	case err != nil:
		return driver.Outcome{}, err
	case refused:
		return driver.Outcome{State: driver.Absent}, nil
	}
	return a.answer(c, e, ln)
}

// readFirst reads before it writes: a claim that would not wait need not be queued,
// and one that can join a grant must not.
func (a *attempt) readFirst(c *call) (out driver.Outcome, done bool, err error) {
	if err := c.catchUp(a.store); err != nil {
		return out, false, err
	}
	ln, err := a.readLock(c, a.claim.Name)
	if err := cmp.Or(err, ln.strange); err != nil {
		return out, false, err
	}
	all := slices.Concat(ln.granted, ln.waiting)
	if n, ok := find(all, a.id, a.claim.Seq); ok { // made before, its answer was lost
		out, err = a.answer(c, knownClaim{node: n}, ln)
		return out, true, err
	}
	if host, ok := ln.joinable(a.me); ok {
		return a.join(c, host, nil)
	}
	if a.claim.Queue || len(ln.waiting) == 0 && ln.admits(a.me) {
		return out, false, nil
	}
	out, err = a.notGranted(c, ln, driver.Busy, 0, "")
	return out, true, err
}

// retry is an attempt of a claim whose node this process knows.
func (a *attempt) retry(c *call, e knownClaim) (driver.Outcome, error) {
	if err := c.catchUp(a.store); err != nil {
		return driver.Outcome{}, err
	}
	ln, err := a.readLock(c, a.claim.Name)
	if err := cmp.Or(err, ln.strange); err != nil {
		return driver.Outcome{}, err
	}
	return a.answer(c, e, ln)
}

// create queues the claim. The node is made together with a check of the
// session's, so it is not made for a session that has ended or a claim that was
// tombstoned. refused is set if the claim was tombstoned or broken.
//
// If the lock's own node is the store's, it is written to in the same transaction, with nothing:
// the answer to that has the transaction's number, which is the czxid of the new node, and how
// many children there are now. Alone it is granted, and nothing needs to be read.
func (a *attempt) create(c *call) (e knownClaim, ln lockState, refused bool, err error) {
	parent := a.store.layout.lock(a.claim.Name)
	for {
		known, version := a.known()
		if known.refuses(a.claim.Seq) { // since it was checked
			return e, ln, true, nil
		}
		ops := []any{
			&zk.CheckVersionRequest{Path: a.path, Version: version},
			&zk.CreateRequest{Path: parent + "/" + a.store.layout.prefix(a.me), Data: a.data(), Acl: a.store.acl, Flags: zk.FlagEphemeralSequential},
		}
		if a.store.layout.alone() {
			ops = append(ops, &zk.SetDataRequest{Path: parent, Version: -1})
		}
		answers, at, refusal, err := c.multi(ops...)
		switch {
		case err != nil:
			return e, ln, false, err
		case at < 0:
			e, ln, err = a.created(c, answers[1].String[len(parent)+1:], answers[len(answers)-1].Stat)
			return e, ln, false, err
		case at > 0: // the lock's own node is missing
			if err := a.store.layout.makeLock(c, a.store, a.claim.Name); err != nil {
				return e, ln, false, err
			}
		case errors.Is(refusal, zk.ErrNoNode):
			a.end()
			return e, ln, false, c.gone()
		default: // the session's node has changed
			if _, err := a.refresh(c); err != nil {
				return e, ln, false, err
			}
		}
	}
}

// data is what the claim's node holds.
func (a *attempt) data() []byte {
	return encode(&claimData{Record: a.claim.Terms.Record, Reentry: a.claim.Terms.Reentry, TTL: a.lives().Milliseconds(), Linger: a.claim.Terms.Linger.Milliseconds()})
}

// created reads the queue after a node was made. If the claim had a node already,
// because the answer to an earlier attempt was lost, that one counts and this one
// goes.
func (a *attempt) created(c *call, name string, parent *zk.Stat) (e knownClaim, ln lockState, err error) {
	made, _, _ := a.store.layout.arrange([]string{name})
	alone := a.store.layout.alone()
	if len(made) != 1 || !made[0].is(a.id, a.claim.Seq) || alone && parent == nil {
		return e, ln, c.failed(errors.New("the ensemble named the node " + name))
	}
	e.node = made[0]
	if alone {
		if e.token, err = c.tokenOf(parent.Mzxid); err != nil {
			return e, ln, err
		}
		if parent.NumChildren == 1 {
			return e, evaluate([]node{e.node}, limit{}), nil
		}
	}
	ln, extra, err := a.readCreated(c, &e)
	if err != nil {
		return e, ln, err
	}
	for _, x := range extra {
		if x.is(a.id, a.claim.Seq) {
			if _, err := a.removeOwn(c, a.store.layout.lock(a.claim.Name)+"/"+x.name); err != nil {
				return e, ln, err
			}
		}
	}
	first, ok := find(slices.Concat(ln.granted, ln.waiting), a.id, a.claim.Seq)
	if ok && first.name != name {
		e = knownClaim{node: first}
	}
	return e, ln, nil // without a node it was withdrawn since; answer finds out
}

// readCreated reads the queue, and in a shared layout at the same time the token of the new node. If
// the queue does not show who holds the lock, the node goes: others would wait for it.
func (a *attempt) readCreated(c *call, e *knownClaim) (ln lockState, extra []node, err error) {
	var token error
	var reading sync.WaitGroup
	reading.Go(func() { _, token = a.tokenise(c, a.claim, e) })
	ln, extra, err = a.readAllClaims(c, a.claim.Name)
	reading.Wait()
	if err := cmp.Or(err, token); err != nil {
		return ln, extra, err
	}
	if ln.strange != nil {
		if _, err := a.removeOwn(c, a.store.layout.lock(a.claim.Name)+"/"+e.node.name); err != nil {
			return ln, extra, err
		}
	}
	return ln, extra, ln.strange
}

// answer returns where the claim stands.
func (a *attempt) answer(c *call, e knownClaim, ln lockState) (driver.Outcome, error) {
	if n, ok := ln.holds(a.id, a.claim.Seq); ok {
		e.node = n
		ok, err := a.tokenise(c, a.claim, &e)
		if err != nil {
			return driver.Outcome{}, err
		}
		if ok && n.mode == driver.Exclusive && a.claim.Terms.Mode == driver.Shared {
			if err := a.downgrade(c, &e); err != nil {
				return driver.Outcome{}, err
			}
		}
		if ok && a.noteGrant(a.claim, e) {
			return driver.Outcome{State: driver.Granted, Token: e.token}, nil
		}
	}
	place := ln.waits(a.id, a.claim.Seq)
	if place < 0 {
		// Broken, or withdrawn through another value of the session. Whatever it
		// was, the claim is spent.
		a.missing(a.claim.Seq)
		_, err := a.refresh(c)
		return driver.Outcome{State: driver.Absent}, err
	}
	if host, ok := ln.joinable(a.me); ok {
		old := ln.waiting[place]
		if out, done, err := a.join(c, host, &old); done || err != nil {
			return out, err
		}
	}
	if a.claim.Queue {
		e.node = ln.waiting[place]
		e.blocker = ""
		if n, ok := ln.blocker(place); ok {
			e.blocker = n.name
		}
		a.note(a.claim.Seq, e)
		return a.notGranted(c, ln, driver.Queued, place, e.blocker)
	}
	a.dropClaim(a.claim.Seq)
	if _, err := a.removeOwn(c, a.store.layout.lock(a.claim.Name)+"/"+ln.waiting[place].name); err != nil {
		return driver.Outcome{}, err
	}
	return a.notGranted(c, ln, driver.Busy, 0, "")
}

// notGranted answers a claim that is not granted, with the holders in its way. It watches the
// blocker of a queued claim, if there is one.
func (a *attempt) notGranted(c *call, ln lockState, state driver.State, place int, blocker string) (driver.Outcome, error) {
	out := driver.Outcome{State: state, Position: place, PollAfter: a.lives()}
	if state == driver.Queued && a.store.layout.revokes() {
		a.revokeHolders(c, ln)
	}
	var err error
	if out.Holders, err = a.holders(c, ln, blocker); err != nil {
		return driver.Outcome{}, err
	}
	for i, h := range out.Holders { // the end of one of several may make room
		if i == 0 || h.EndsIn < out.PollAfter {
			out.PollAfter = h.EndsIn
		}
	}
	out.PollAfter = driver.PollAfter(out.PollAfter, place)
	return out, nil
}

// revokeHolders asks the holders of other programs to release. Those of this library see the queue.
func (a *attempt) revokeHolders(c *call, ln lockState) {
	for _, n := range ln.granted {
		if n.foreign {
			c.revoke(a.store.layout.lock(a.claim.Name) + "/" + n.name)
		}
	}
}

// holders reads the holders, and sets the watch that Await would set. All requests are sent
// before the first is answered, and a blocker that is a holder is read by its watch.
func (a *attempt) holders(c *call, ln lockState, blocker string) ([]driver.Holder, error) {
	parent := a.store.layout.lock(a.claim.Name)
	nodes := ln.granted[:min(len(ln.granted), driver.MaxHoldersReported)]
	found, there, errs := make([]driver.Holder, len(nodes)), make([]bool, len(nodes)), make([]error, len(nodes)+1)
	var reads sync.WaitGroup
	for i, n := range nodes {
		get := c.get
		if n.name == blocker {
			get = func(path string) ([]byte, *zk.Stat, error) { return a.getAndWatch(c, path) }
		}
		reads.Go(func() { found[i], there[i], errs[i] = c.holder(get, a.store, parent, ln, n) })
	}
	if blocker != "" && !slices.ContainsFunc(nodes, func(n node) bool { return n.name == blocker }) {
		_, errs[len(nodes)] = a.watchNode(c, parent+"/"+blocker)
	}
	reads.Wait()
	var holders []driver.Holder
	for i, h := range found {
		if there[i] {
			holders = append(holders, h)
		}
	}
	return holders, errors.Join(errs...)
}

// tokenise finds out the token of a claim's node. It returns false if the node has
// gone. In a layout that other programs share it watches the node, too.
func (ss *session) tokenise(c *call, cl *driver.Claim, e *knownClaim) (ok bool, err error) {
	lock, alone := ss.store.layout.lock(cl.Name), ss.store.layout.alone()
	path := lock + "/" + e.node.name
	switch {
	case e.token != 0 && (alone || ss.owns(path)):
		return true, nil
	case alone:
		e.token, err = c.token(lock, e.node)
		return e.token != 0, err
	}
	e.token, ok, err = ss.watchGrantNode(c, path, cl.Seq, e.node)
	return ok, err
}
