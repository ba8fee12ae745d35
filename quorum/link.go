// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum/internal/vote"
)

// link is a session on one node.
//
//	          Open, marked                KeepAlive
//	closed ────────────────▶ open ◀──────────────────┐
//	  ▲  ▲                   │ │ └───────────────────┘
//	  │  └─── gone ──────────┘ │     under another id: what was sent before is refused
//	  └────── forgot ──────────┘     under the same id: grants are reclaimed
//
// Guarded by the body's mutex, but for what never changes.
type link struct {
	b    *body
	n    int
	name string
	turn chan struct{} // held while opening; a channel, so that fake time can pass

	drv     driver.Session // nil if closed
	life    int            // counts drv's: an answer to an earlier one says nothing of this
	gen     uint16         // counts the ids used on this node
	kept    stamp          // when the last successful Open or KeepAlive was sent
	ttl     time.Duration
	broken  []uint64
	opening int  // calls of open under way
	gone    bool // the node ended the session
	forgot  bool // the node lost its memory
	// marked is set when the node knows our list of nodes: only then it votes.
	marked  bool
	mark    driver.Token // of the marker
	tending bool
	// leaving are the withdrawals under way by name: an attempt of the same name
	// waits for them, or it would find our own claim in its way.
	leaving map[string]chan struct{}
}

func newLink(b *body, n int, before *body) *link {
	l := &link{b: b, n: n, name: b.s.nodes[n].Name, turn: make(chan struct{}, 1), leaving: map[string]chan struct{}{}}
	if before != nil { // never use an id again that a node has seen end
		before.mu.Lock()
		l.gen = before.links[n].gen + 1
		before.mu.Unlock()
	}
	return l
}

func (l *link) store() driver.Store { return l.b.s.nodes[l.n].Store }

// id is the session's id on this node. After the node ended the session it gets
// another, so that an attempt that is still on its way finds nothing to hang on.
func (l *link) id() driver.SessionID { return lifeOf(l.b.key.id, l.gen) }

// lifeOf returns the id for a life of a session: the last two bytes count.
func lifeOf(id driver.SessionID, gen uint16) driver.SessionID {
	binary.BigEndian.PutUint16(id[14:], binary.BigEndian.Uint16(id[14:])^gen)
	return id
}

// origin is what all lives of a session have in common.
func origin(id driver.SessionID) driver.SessionID {
	id[14], id[15] = 0, 0
	return id
}

// seqs of one claim on a node differ by the try.
const tries = 256

func nodeSeq(seq uint64, try uint8) uint64 { return seq*tries + uint64(try) }

func coreSeq(node uint64) uint64 { return node / tries }

// open opens the session on the node and marks it. It makes calls.
func (l *link) open() error {
	b := l.b
	b.mu.Lock()
	l.opening++
	b.mu.Unlock()
	l.turn <- struct{}{}
	defer func() {
		<-l.turn
		b.mu.Lock()
		l.opening--
		b.mu.Unlock()
	}()
	b.mu.Lock()
	if l.drv != nil {
		b.mu.Unlock()
		return nil
	}
	if l.gone {
		l.gen++
		l.gone, l.mark = false, 0
	}
	req := driver.OpenRequest{Shard: b.key.shard, ID: l.id(), TTL: b.ttl}
	mark := l.mark
	if !l.forgot {
		mark = 0
	}
	kept := b.now()
	b.mu.Unlock()
	ctx, cancel := b.s.bound()
	defer cancel()
	sent := time.Now()
	drv, life, err := l.store().Open(ctx, req)
	b.s.health.answered(l.n, err)
	if err != nil {
		return err
	}
	b.s.health.clock(l.n, life.Clock, sent, time.Now())
	m, err := l.marker(drv, mark)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.drv, l.kept, l.ttl = drv, kept, life.TTL
	l.heardBroken(life.Broken)
	l.life++
	l.forgot = false
	l.marked, l.mark = m.held, m.token
	return nil
}

// marked is what became of a marker.
type marked struct {
	held  bool
	token driver.Token
	after time.Duration // when to try again
}

// marker takes part in the marker of our list: an exclusive claim that clients
// with the same list share, and others cannot get. It lives with the session, so a
// list is forgotten when nobody uses it any more.
func (l *link) marker(drv driver.Session, token driver.Token) (marked, error) {
	b := l.b
	c := driver.Claim{Seq: nodeSeq(0, 1), Name: b.s.markerName(b.key.shard), Floor: driver.TokenStep, Terms: &driver.Terms{
		Weight: 1, Reentry: b.s.list, Record: &driver.Record{Owner: "quorum", Reason: "nodes " + b.s.listed},
	}}
	ctx, cancel := b.s.bound()
	defer cancel()
	if token > 0 {
		if kept, err := drv.Reclaim(ctx, []driver.Held{{Claim: c, Token: token}}, false); err == nil && kept[0] {
			return marked{true, token, 0}, nil
		}
	}
	out, err := drv.Attempt(ctx, &c)
	b.s.health.answered(l.n, err)
	if err != nil {
		return marked{}, err
	}
	if b.s.health.counts(l.n) {
		b.s.saw(out.Token)
	}
	if out.State == driver.Granted {
		return marked{true, out.Token, 0}, nil
	}
	for _, h := range out.Holders {
		if h.Reentry != b.s.list {
			err := fmt.Errorf("quorum: node %s is in use with another list of nodes (%s) than ours (nodes %s); give all clients the same list: %w",
				l.name, h.Record.Reason, b.s.listed, driver.ErrRefused)
			b.s.opts.Alarm(Alarm{Kind: OtherList, Node: l.name, Err: err})
			return marked{}, err
		}
	}
	return marked{after: max(out.LookAfter, time.Millisecond)}, nil
}

// markerName is the name of the marker on a shard. All clients find the same.
func (s *Store) markerName(shard string) string {
	for i := 0; ; i++ {
		if name := reserved + "nodes/" + strconv.Itoa(i); s.Shard(name) == shard {
			return name
		}
	}
}

// ready returns the session on the node, marked. If the node rests, it says until
// when instead. It makes calls.
func (l *link) ready() (drv driver.Session, life int, rest time.Duration, err error) {
	l.b.mu.Lock()
	late := l.drv == nil && l.opening > 0
	l.b.mu.Unlock()
	if late { // it is slower to open than the others
		if err := l.open(); err != nil {
			return nil, 0, 0, err
		}
	}
	l.b.mu.Lock()
	drv, life = l.drv, l.life
	ok := l.marked
	l.b.mu.Unlock()
	if drv == nil {
		return nil, life, 0, fmt.Errorf("no session: %w", driver.ErrUnavailable)
	}
	if ok {
		return drv, life, 0, nil
	}
	m, err := l.marker(drv, 0)
	if err != nil {
		l.heard(life, err)
		return nil, life, 0, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.life == life {
		l.marked, l.mark = m.held, m.token
	}
	return drv, life, m.after, nil
}

// heard takes note of what an error says about the session on the node.
func (l *link) heard(life int, err error) {
	if err == nil || !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrForgotten) && !errors.Is(err, driver.ErrRefused) {
		return
	}
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.life != life || l.drv == nil {
		return
	}
	switch {
	case errors.Is(err, driver.ErrRefused):
		b.refused = err
		for _, w := range b.wishes {
			w.wake()
		}
		return
	case errors.Is(err, driver.ErrGone):
		l.gone = true
	default:
		l.forgot = true
		b.s.behind.run(func() { b.s.opts.Alarm(Alarm{Kind: NodeForgot, Node: l.name, Err: err}) })
	}
	l.drv, l.marked = nil, false
	for _, w := range b.wishes {
		w.leftNode(l.n, l.forgot)
	}
	b.judge()
}

// keeps says whether the node may have anything of the session. Wants mu.
func (l *link) keeps() bool { return l.drv != nil || l.forgot }

// fresh says whether what the node grants lives as long as the core believes.
// Wants mu.
func (l *link) fresh() bool {
	return l.drv != nil && l.marked && l.kept >= l.b.base && l.b.s.health.counts(l.n)
}

// all is the set of all nodes.
func (b *body) all() vote.Set { return 1<<len(b.links) - 1 }

// call makes one bounded call on the node's session and notes what it says of the
// session.
func (l *link) call(drv driver.Session, life int, f func(ctx context.Context) error) error {
	ctx, cancel := l.b.s.bound()
	defer cancel()
	err := f(ctx)
	l.b.s.health.answered(l.n, err)
	l.heard(life, err)
	return err
}
