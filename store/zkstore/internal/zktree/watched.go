// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// revocation is the data that asks the holder of a node to release, in Curator.
const revocation = "__REVOKE__"

// watchedGrants are the nodes of granted claims that are watched, in a layout that other programs share:
// any of them may delete a node, and the holder must learn of it. Guarded by the session's mu.
//
//	other program          ensemble               this process
//	delete(node) ────────▶ NodeDeleted ─────────▶ taken ──▶ Renewal.Broken of the next heartbeat
//	set(node, data) ─────▶ NodeDataChanged ─────▶ watch again: a watch reports one change
//
// A holder is notified after the fact: the node does not go in a transaction that checks anything.
type watchedGrants struct {
	nodes map[string]uint64 // claims by the paths of their nodes; one that was deleted is not there
	// taken are claims whose nodes were deleted while they were granted, and withdrawn those of
	// them that were withdrawn since.
	taken, withdrawn []uint64
	unsure           map[uint64]string // claims, and their locks, whose downgrade has an outcome that is not known yet
}

// wasTaken reports whether another program has deleted the node of the claim.
func (w *watchedGrants) wasTaken(seq uint64) bool {
	return slices.Contains(w.taken, seq) || slices.Contains(w.withdrawn, seq)
}

// broken returns the claims to report as broken, with those of the session's record.
func (w *watchedGrants) broken(r *record) []uint64 {
	all := slices.Clone(r.Broken)
	for _, seq := range w.taken {
		if !slices.Contains(all, seq) && !slices.Contains(r.Left, seq) {
			all = append(all, seq)
		}
	}
	return all
}

// take notes that another program has deleted the node of the claim.
func (w *watchedGrants) take(seq uint64) {
	if !w.wasTaken(seq) {
		w.taken = append(w.taken, seq)
	}
}

// withdraw ends the report about a claim, and returns whether its node was deleted.
func (w *watchedGrants) withdraw(seq uint64) bool {
	if i := slices.Index(w.taken, seq); i >= 0 {
		w.taken = slices.Delete(w.taken, i, i+1)
		w.withdrawn = append(w.withdrawn, seq)
	}
	return slices.Contains(w.withdrawn, seq)
}

// watchGrantNode watches the node of a claim, and returns its token. It returns false if the node has gone.
func (ss *session) watchGrantNode(c *call, path string, seq uint64, n node) (driver.Token, bool, error) {
	if err := c.over(); err != nil {
		return 0, false, err
	}
	ss.adopt(path, seq)
	_, stat, _, err := c.conn.GetW(path)
	if err != nil {
		ss.disown(path)
		if errors.Is(err, zk.ErrNoNode) {
			return 0, false, nil
		}
		return 0, false, c.failed(err)
	}
	if n.token != 0 {
		return n.token, true, nil
	}
	token, err := c.tokenOf(stat.Czxid)
	return token, err == nil, err
}

// adopt notes that a node is that of a claim. A watch of it must be there, or follow.
func (ss *session) adopt(path string, seq uint64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.watched.nodes == nil {
		ss.watched.nodes = map[string]uint64{}
	}
	ss.watched.nodes[path] = seq
}

// owns reports whether a node is noted as that of a claim, and was not deleted since.
func (ss *session) owns(path string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.ownsLocked(path)
}

// ownsLocked is owns. l.mu must be held.
func (ss *session) ownsLocked(path string) bool {
	_, ok := ss.watched.nodes[path]
	return ok
}

// noteGrant notes a granted claim. It returns false if another program has deleted its node since
// it was read: its deletion came before the grant, so it was not noted.
func (ss *session) noteGrant(cl *driver.Claim, e knownClaim) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.store.layout.alone() && !ss.ownsLocked(ss.store.layout.lock(cl.Name)+"/"+e.node.name) {
		return false
	}
	e.granted = true
	ss.claims[cl.Seq] = e
	return true
}

// heard is called by the library for a node that has changed. It must not wait for a request: it is
// what reads the answers.
func (ss *session) heard(ev zk.Event) {
	switch ev.Type {
	case zk.EventNodeDeleted:
		ss.deleted(ev.Path)
	case zk.EventNodeDataChanged:
		if ss.owns(ev.Path) {
			go ss.watchOwned(ev.Path)
		}
	}
}

// watchOwned sets the watch of a node, however long that takes, unless the node has gone.
func (ss *session) watchOwned(path string) {
	for !ss.ended() && ss.owns(path) {
		_, _, _, err := ss.conn.GetW(path)
		switch {
		case err == nil:
			return
		case errors.Is(err, zk.ErrNoNode):
			ss.deleted(path)
			return
		}
		select {
		case <-ss.over:
		case <-time.After(ss.ask / 8):
		}
	}
}

// disown is called before this process removes a node.
func (ss *session) disown(path string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.watched.nodes, path)
}

// deleted is called for a node that was watched and has gone. A claim that was not granted yet
// finds out when it is attempted again.
func (ss *session) deleted(path string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	seq, ok := ss.watched.nodes[path]
	if !ok {
		return
	}
	delete(ss.watched.nodes, path)
	ss.takeLocked(seq)
}

// takeLocked notes that another program has deleted the node of a claim, if the claim was granted and
// this process has not removed the node itself. l.mu must be held.
func (ss *session) takeLocked(seq uint64) {
	if e := ss.claims[seq]; e.granted && e.leaving == 0 && !ss.record.refuses(seq) {
		ss.watched.take(seq)
	}
}

// missing is called for a claim that has no node. If it was granted, another program has deleted its
// node, perhaps between two watches.
func (ss *session) missing(seq uint64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.store.layout.alone() {
		ss.takeLocked(seq)
	}
	delete(ss.claims, seq)
	ss.notices.End(seq)
}

// takenBack ends the report that a claim was taken, and returns whether it was.
func (ss *session) takenBack(seq uint64) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.watched.withdraw(seq) && !slices.Contains(ss.record.Left, seq)
}

// leave notes in a session that another process has opened that the claim was withdrawn: that
// process sees its node go.
func (ss *session) leave(c *call, seq uint64) error {
	ss.mu.Lock()
	alone := ss.owner || ss.store.layout.alone()
	ss.mu.Unlock()
	if alone {
		return nil
	}
	_, _, err := amend(c, ss.path, func(r *record) {
		if !slices.Contains(r.Left, seq) {
			r.Left = append(r.Left, seq)
		}
	})
	return err
}

// removeOwn deletes a node of this process, and reports whether it was there.
func (ss *session) removeOwn(c *call, path string) (bool, error) {
	ss.disown(path)
	return c.remove(path)
}

// revoke asks the holder of a node to release, if it listens: a revocable lock has no data. A claim
// waits whether the holder could be asked or not, so there is no error: access to the holder's node
// may be denied.
func (c *call) revoke(path string) {
	data, stat, err := c.get(path)
	if err != nil || stat == nil || len(data) > 0 {
		return
	}
	_, _ = c.conn.Set(path, []byte(revocation), stat.Version)
}
