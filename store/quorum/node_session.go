// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// nodeSession is a session on one node; vote.NodeSession has its states. The mutex of the
// quorumSession guards it, but for what never changes.
type nodeSession struct {
	b    *quorumSession
	n    int
	name string

	drv        driver.Session // nil if at is not open
	before     driver.Session // the last one with this id
	renewal    int            // counts drv's: an answer to an earlier one means nothing for this
	generation uint16         // counts the ids used on this node
	// stray is set when an Open under this id may still arrive; since is when the session was opened.
	stray   bool
	since   time.Time
	kept    stamp // when the last successful Open or KeepAlive was sent
	ttl     time.Duration
	broken  []uint64
	opening *opening // in flight; nil if none is
	at      vote.NodeSession
	// marked is set when the node knows our list of nodes: only then it votes.
	marked    bool
	mark      driver.Token // of the marker; if not marked, of the one that a node without data has to be asked for again
	repairing bool
	// sweeping is how many repeated withdrawals are in flight.
	sweeping int
	// leaving are the withdrawals in flight by name: an attempt of the same name
	// waits for them, or it would find our own claim in its way.
	leaving map[string]chan struct{}
}

func newNodeSession(b *quorumSession, n int, before *quorumSession) *nodeSession {
	l := &nodeSession{b: b, n: n, name: b.s.nodes[n].Name, leaving: map[string]chan struct{}{}}
	if before != nil { // never use an id again that a node has seen end
		before.mu.Lock()
		l.generation = before.links[n].generation + 1
		before.mu.Unlock()
	}
	return l
}

func (l *nodeSession) store() driver.Store { return l.b.s.nodes[l.n].Store }

// id is the session's id on this node. After the node ended the session it gets
// another, so that an attempt that is still on its way finds nothing to hang on.
func (l *nodeSession) id() driver.SessionID { return generationID(l.b.key.id, l.generation) }

// generationID returns the id for a generation of a session: the last two bytes count.
func generationID(id driver.SessionID, generation uint16) driver.SessionID {
	binary.BigEndian.PutUint16(id[14:], binary.BigEndian.Uint16(id[14:])^generation)
	return id
}

// origin is what all generations of a session have in common.
func origin(id driver.SessionID) driver.SessionID {
	id[14], id[15] = 0, 0
	return id
}

// seqs of one claim on a node differ by the try. There are enough for a waiter that
// gives way every few milliseconds for minutes, and for as many claims of a session as
// numbers can count exactly in a script.
const tries = 1 << 16

func nodeSeq(seq uint64, try uint16) uint64 { return seq*tries + uint64(try) }

func coreSeq(node uint64) uint64 { return node / tries }

func tryOf(node uint64) uint16 { return uint16(node % tries) }

// opening is an Open on a node, for all who wait for it: on a node that is away they
// would otherwise make one each, one after the other.
type opening struct {
	done chan struct{} // closed at the end
	err  error
}

// open opens the session on the node and marks it, or waits for the caller that does. It
// makes calls.
func (l *nodeSession) open() error {
	b := l.b
	b.mu.Lock()
	o := l.opening
	if o != nil {
		b.mu.Unlock()
		<-o.done
		return o.err
	}
	o = &opening{done: make(chan struct{})}
	l.opening = o
	b.mu.Unlock()
	o.err = l.openNow()
	b.mu.Lock()
	l.opening = nil
	b.mu.Unlock()
	close(o.done)
	return o.err
}

// openNow is open. One at a time.
func (l *nodeSession) openNow() error {
	b := l.b
	b.mu.Lock()
	if over := b.overLocked(); over || l.drv != nil {
		b.mu.Unlock()
		if over {
			return errClosed
		}
		return nil
	}
	var newID bool
	if l.at, newID = l.at.Opening(); newID {
		l.generation++
		l.mark, l.before, l.stray = 0, nil, false
	}
	req := driver.OpenRequest{Shard: b.key.shard, ID: l.id(), Before: l.before, TTL: b.ttl, Contended: b.nodeContended}
	mark := l.mark
	if l.at != vote.Reset {
		mark = 0
	}
	kept := b.nowLocked()
	b.mu.Unlock()
	ctx := b.s.bound()
	sent := time.Now()
	drv, renewal, err := l.store().Open(ctx, req)
	b.s.health.answered(l.n, err)
	if err != nil {
		l.unopened(err)
		return err
	}
	b.s.health.clock(l.n, renewal.Clock, sent, time.Now())
	m, err := l.marker(drv, mark)
	b.refuse(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	l.before = drv
	if b.overLocked() {
		// Close did not find this one: it would stay for a TTL, with whatever is
		// granted to it in that time.
		b.s.background.run(func() { _ = l.close(drv) })
		return cmp.Or(err, errClosed)
	}
	if err != nil {
		return err
	}
	l.drv, l.kept, l.ttl, l.since = drv, kept, renewal.TTL, sent
	l.heardBrokenLocked(renewal.Broken)
	l.renewal++
	l.at = l.at.Opened()
	l.marked, l.mark = m.held, m.token
	return nil
}

// unopened takes note of an Open that failed.
func (l *nodeSession) unopened(err error) {
	if !errors.Is(err, driver.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.at = l.at.OpenUnanswered()
	l.stray = l.at == vote.Reset
}

// close closes the session on the node. One that has ended there is as good. A
// node that was reset ends what it still has of the session only after the session
// was opened again.
func (l *nodeSession) close(drv driver.Session) error {
	ctx := l.b.s.bound()
	err := drv.Close(ctx)
	if errors.Is(err, driver.ErrReset) {
		l.b.mu.Lock()
		req := driver.OpenRequest{Shard: l.b.key.shard, ID: l.id(), Before: drv, TTL: l.b.ttl}
		l.b.mu.Unlock()
		if drv, _, err = l.store().Open(ctx, req); err == nil {
			err = drv.Close(ctx)
		}
	}
	l.b.s.health.answered(l.n, err)
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// marked is what became of a marker.
type marked struct {
	held  bool
	token driver.Token
	after time.Duration // when to try again
}

// marker takes part in the marker of our list: an exclusive claim that clients
// with the same list share, and others cannot get. It lives with the session, so a
// list is dropped when no client uses it any more. A node that lost its data is given the token that it had for it.
func (l *nodeSession) marker(drv driver.Session, token driver.Token) (marked, error) {
	b := l.b
	c := driver.Claim{Seq: nodeSeq(0, 1), Name: b.s.markerName(b.key.shard), Floor: driver.TokenStep, Terms: &driver.Terms{
		Weight: 1, Reentry: b.s.list, Record: &driver.Record{Owner: "quorum", Reason: "nodes " + b.s.listed},
	}}
	var owed driver.Token
	if token > 0 {
		kept, err := drv.Reclaim(b.s.bound(), []driver.Held{{Claim: c, Token: token}}, false)
		if err == nil && kept[0] {
			return marked{true, token, 0}, nil
		}
		// One that failed is repeated: an attempt is granted only after the grace, and until then nothing that is put
		// back there counts. The session is opened all the same, or the core could not put back its leases.
		if err != nil {
			owed = token
		}
	}
	out, err := drv.Attempt(b.s.bound(), &c) // with a time of its own: the reclaim may have used up all of it
	b.s.health.answered(l.n, err)
	if err != nil {
		return marked{}, err
	}
	b.s.health.marked(l.n, out.Token)
	if out.State == driver.Granted {
		b.s.health.listed(l.n, nil)
		return marked{true, out.Token, 0}, nil
	}
	for _, h := range out.Holders {
		if h.Reentry != b.s.list {
			err := fmt.Errorf("quorum: node %s is in use with another list of nodes (%s) than ours (nodes %s); give all clients the same list: %w",
				l.name, h.Record.Reason, b.s.listed, driver.ErrRefused)
			b.s.health.listed(l.n, err)
			return marked{}, err
		}
	}
	return marked{token: owed, after: max(out.PollAfter, time.Millisecond)}, nil
}

// markerName is the name of the marker on a shard. All clients find the same.
func (s *Store) markerName(shard string) string {
	for i := 0; ; i++ {
		if name := reserved + "nodes/" + strconv.Itoa(i); s.Shard(name) == shard {
			return name
		}
	}
}

// ready returns the session on the node, marked. If the node rests, it returns until
// when instead. It makes calls.
func (l *nodeSession) ready() (drv driver.Session, renewal int, rest time.Duration, err error) {
	l.b.mu.Lock()
	late := l.opening
	if l.drv != nil {
		late = nil
	}
	l.b.mu.Unlock()
	if late != nil { // it is slower to open than the others
		if <-late.done; late.err != nil {
			return nil, 0, 0, late.err
		}
	}
	l.b.mu.Lock()
	drv, renewal = l.drv, l.renewal
	ok, mark, over := l.marked, l.mark, l.b.overLocked()
	l.b.mu.Unlock()
	if drv == nil || over {
		return nil, renewal, 0, errClosed
	}
	if ok {
		return drv, renewal, 0, nil
	}
	m, err := l.marker(drv, mark)
	if err != nil {
		l.heard(renewal, err)
		return nil, renewal, 0, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.renewal == renewal && (m.held || !l.marked) { // several ask at once, and a "not yet" may be heard after the "yes"
		l.marked, l.mark = m.held, m.token
	}
	return drv, renewal, m.after, nil
}

// heard takes note of what an error means for the session on the node.
func (l *nodeSession) heard(renewal int, err error) {
	if err == nil || !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrReset) && !errors.Is(err, driver.ErrRefused) {
		return
	}
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.renewal != renewal || l.drv == nil {
		return
	}
	switch {
	case errors.Is(err, driver.ErrRefused):
		b.refuseLocked(err)
	case errors.Is(err, driver.ErrGone):
		l.lostLocked(false)
	default:
		b.s.background.run(func() { b.s.opts.Alarm(Alarm{Kind: NodeReset, Node: l.name, Err: err}) })
		l.lostLocked(true)
	}
}

// lostLocked notes that the node ended the session, or, with reset, that it lost its data. l.b.mu must be held.
func (l *nodeSession) lostLocked(reset bool) {
	l.at = l.at.Lost(reset)
	l.drv, l.marked = nil, false
	for _, w := range l.b.requests {
		w.leftNodeLocked(l.n, reset)
	}
	l.b.judgeLocked()
}

// refuse ends the session if the error means that a node is in use with another list,
// whichever call gets it: the list may be found out only when a node that was away is
// repaired, and by then both lists may have granted.
func (b *quorumSession) refuse(err error) {
	if !errors.Is(err, driver.ErrRefused) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuseLocked(err)
}

// refuseLocked is refuse. b.mu must be held.
func (b *quorumSession) refuseLocked(err error) {
	b.refused = err
	for _, w := range b.requests {
		w.wakeLocked()
	}
}

// freshLocked reports whether what the node grants lives as long as the core believes.
// l.b.mu must be held.
func (l *nodeSession) freshLocked() bool {
	return l.drv != nil && l.marked && l.kept >= l.b.base && l.b.s.health.counts(l.n)
}

// isMarked reports whether the node votes.
func (l *nodeSession) isMarked() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.marked
}

// all is the set of all nodes.
func (b *quorumSession) all() vote.Set { return 1<<len(b.links) - 1 }

// call makes one bounded call on the node's session and notes what it means for the
// session.
func (l *nodeSession) call(renewal int, f func(ctx context.Context) error) error {
	l.b.s.health.calling(l.n)
	err := f(l.b.s.bound())
	l.b.s.health.called(l.n, err)
	l.heard(renewal, err)
	return err
}
