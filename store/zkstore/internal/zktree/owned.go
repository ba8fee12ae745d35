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

// owned are the nodes of granted claims that are watched, in a layout that other programs share:
// any of them may delete a node, and the holder must learn of it. Guarded by the link's mu.
//
//	other program          ensemble               this process
//	delete(node) ────────▶ NodeDeleted ─────────▶ taken ──▶ Renewal.Broken of the next heartbeat
//	set(node, data) ─────▶ NodeDataChanged ─────▶ watch again: a watch reports one change
//
// A holder is notified after the fact: the node does not go in a transaction that checks anything.
type owned struct {
	nodes map[string]uint64 // claims by the paths of their nodes; one that was deleted is not there
	// taken are claims whose nodes were deleted while they were granted, and withdrawn those of
	// them that were withdrawn since.
	taken, withdrawn []uint64
	unsure           map[uint64]string // claims, and their locks, whose downgrade has an outcome that is not known yet
}

// wasTaken reports whether another program has deleted the node of the claim.
func (o *owned) wasTaken(seq uint64) bool {
	return slices.Contains(o.taken, seq) || slices.Contains(o.withdrawn, seq)
}

// broken returns the claims to report as broken, with those of the session's record.
func (o *owned) broken(r *record) []uint64 {
	all := slices.Clone(r.Broken)
	for _, seq := range o.taken {
		if !slices.Contains(all, seq) && !slices.Contains(r.Left, seq) {
			all = append(all, seq)
		}
	}
	return all
}

// take notes that another program has deleted the node of the claim.
func (o *owned) take(seq uint64) {
	if !o.wasTaken(seq) {
		o.taken = append(o.taken, seq)
	}
}

// withdraw ends the report about a claim, and returns whether its node was deleted.
func (o *owned) withdraw(seq uint64) bool {
	if i := slices.Index(o.taken, seq); i >= 0 {
		o.taken = slices.Delete(o.taken, i, i+1)
		o.withdrawn = append(o.withdrawn, seq)
	}
	return slices.Contains(o.withdrawn, seq)
}

// own watches the node of a claim, and returns its token. It returns false if the node has gone.
func (l *link) own(c *call, path string, seq uint64, n node) (driver.Token, bool, error) {
	if err := c.over(); err != nil {
		return 0, false, err
	}
	l.adopt(path, seq)
	_, stat, _, err := c.conn.GetW(path)
	if err != nil {
		l.disown(path)
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
func (l *link) adopt(path string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owned.nodes == nil {
		l.owned.nodes = map[string]uint64{}
	}
	l.owned.nodes[path] = seq
}

// owns reports whether a node is noted as that of a claim, and was not deleted since.
func (l *link) owns(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ownsLocked(path)
}

// ownsLocked is owns. l.mu must be held.
func (l *link) ownsLocked(path string) bool {
	_, ok := l.owned.nodes[path]
	return ok
}

// noteGrant notes a granted claim. It returns false if another program has deleted its node since
// it was read: its deletion came before the grant, so it was not noted.
func (l *link) noteGrant(cl *driver.Claim, e entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.store.layout.alone() && !l.ownsLocked(l.store.layout.lock(cl.Name)+"/"+e.node.name) {
		return false
	}
	e.granted = true
	l.claims[cl.Seq] = e
	return true
}

// heard is called by the library for a node that has changed. It must not wait for a request: it is
// what reads the answers.
func (l *link) heard(ev zk.Event) {
	switch ev.Type {
	case zk.EventNodeDeleted:
		l.deleted(ev.Path)
	case zk.EventNodeDataChanged:
		if l.owns(ev.Path) {
			go l.watchOwned(ev.Path)
		}
	}
}

// watchOwned sets the watch of a node, however long that takes, unless the node has gone.
func (l *link) watchOwned(path string) {
	for !l.ended() && l.owns(path) {
		_, _, _, err := l.conn.GetW(path)
		switch {
		case err == nil:
			return
		case errors.Is(err, zk.ErrNoNode):
			l.deleted(path)
			return
		}
		select {
		case <-l.over:
		case <-time.After(l.ask / 8):
		}
	}
}

// disown is called before this process removes a node.
func (l *link) disown(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owned.nodes, path)
}

// deleted is called for a node that was watched and has gone. A claim that was not granted yet
// finds out when it is attempted again.
func (l *link) deleted(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq, ok := l.owned.nodes[path]
	if !ok {
		return
	}
	delete(l.owned.nodes, path)
	l.takeLocked(seq)
}

// takeLocked notes that another program has deleted the node of a claim, if the claim was granted and
// this process has not removed the node itself. l.mu must be held.
func (l *link) takeLocked(seq uint64) {
	if e := l.claims[seq]; e.granted && e.leaving == 0 && !l.record.refuses(seq) {
		l.owned.take(seq)
	}
}

// missing is called for a claim that has no node. If it was granted, another program has deleted its
// node, perhaps between two watches.
func (l *link) missing(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.store.layout.alone() {
		l.takeLocked(seq)
	}
	delete(l.claims, seq)
	l.notices.End(seq)
}

// takenBack ends the report that a claim was taken, and returns whether it was.
func (l *link) takenBack(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owned.withdraw(seq) && !slices.Contains(l.record.Left, seq)
}

// leave notes in a session that another process has opened that the claim was withdrawn: that
// process sees its node go.
func (l *link) leave(c *call, seq uint64) error {
	l.mu.Lock()
	alone := l.owner || l.store.layout.alone()
	l.mu.Unlock()
	if alone {
		return nil
	}
	_, _, err := amend(c, l.path, func(r *record) {
		if !slices.Contains(r.Left, seq) {
			r.Left = append(r.Left, seq)
		}
	})
	return err
}

// removeOwn deletes a node of this process, and reports whether it was there.
func (l *link) removeOwn(c *call, path string) (bool, error) {
	l.disown(path)
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
