// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
)

// quorumTTL is long for a loaded machine and short for a developer who waits.
const quorumTTL = 6 * time.Second

func options() *fencelock.Options { return &fencelock.Options{TTL: quorumTTL} }

func (q *quorumRig) lock(t *testing.T, c *quorumProcess, name string) *fencelock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := c.Mutex(name).Lock(ctx)
	must.OK(t, err)
	return l
}

// outlives waits so long that a lease that was not renewed would have ended.
func outlives(t *testing.T, l *fencelock.Lease, why string) {
	t.Helper()
	select {
	case <-l.Context().Done():
		t.Fatalf("%s: the lease was lost: %v", why, context.Cause(l.Context()))
	case <-time.After(quorumTTL + quorumTTL/5):
	}
}

// eventually waits until a server shows how many holders a lock has, and returns them.
func (r *quorumNode) eventually(t *testing.T, name string, holders int) []driver.Holder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := r.open(t)
	for {
		st, err := s.Inspect(ctx, name)
		if err == nil && len(st.Holders) == holders {
			return st.Holders
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not show %d holders of %s but %v, %v", r.server.Addr, holders, name, st.Holders, err)
		case <-time.After(quorumTTL / 40):
		}
	}
}

// onAll waits until every server has the lease and the holder counts it: a slow one gets it with the next keep-alive, and
// only then a minority can be spared. One that granted with another token counts only when a keep-alive has found that and
// raised the others, so a keep-alive is waited for that was sent after all had the lease.
func (q *quorumRig) onAll(t *testing.T, holder *quorumProcess, l *fencelock.Lease) {
	t.Helper()
	agree := true
	for _, r := range q.nodes {
		agree = r.eventually(t, l.Name(), 1)[0].Token == l.Token().Base() && agree
	}
	// A lease is trusted for less than a TTL from the keep-alive that was sent last.
	for later := time.Now().Add(quorumTTL); !agree && l.Deadline().Before(later); {
		select {
		case <-l.Context().Done():
			t.Fatalf("the lease was lost: %v", context.Cause(l.Context()))
		case <-time.After(quorumTTL / 40):
		}
	}
	_ = holder.store.Close() // what that keep-alive began is over
}

// mustNotGet fails if another process gets the lock.
func mustNotGet(t *testing.T, c *quorumProcess, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if l, err := c.Mutex("x").Lock(ctx); err == nil {
		t.Fatalf("%s: a second process holds the lock, with token %v", why, l.Token())
	}
}

// TestQuorumSurvivesItsNodes: a lease outlives what may happen to a minority, and
// no other client gets in: servers killed and gone, killed and back empty, stopped and
// resumed, and all of them flushed at once.
func TestQuorumSurvivesItsNodes(t *testing.T) {
	q := newQuorumRig(t, redisstore.Options{Grace: true, MaxTTL: quorumTTL})
	holder, other := q.process(t, options()), q.process(t, options())
	held := q.lock(t, holder, "x")
	nothing := func() {}
	for _, f := range []struct {
		why  string
		long bool // longer than a lease lasts that is not renewed
		do   func() (undo func())
	}{
		{"two servers killed, and back empty", true, func() func() {
			q.nodes[0].server.Kill()
			q.nodes[1].server.Kill()
			return func() { q.nodes[0].restart(t); q.nodes[1].restart(t); mustNotGet(t, other, "back empty") }
		}},
		{"two servers stopped", true, func() func() {
			a, b := q.nodes[2].server.Pause(), q.nodes[3].server.Pause()
			return func() { a(); b() }
		}},
		{"one wiped", false, func() func() { q.nodes[4].server.Do("FLUSHALL"); return nothing }},
		{"one lost the last second", false, func() func() { q.lastSecond(t, holder, q.nodes[3]); return nothing }},
		{"all flushed at once", true, func() func() {
			_ = q.each(func(r *quorumNode) error { return r.server.Do("FLUSHALL").Err() })
			return nothing
		}},
	} {
		q.onAll(t, holder, held)
		t.Log(f.why)
		undo := f.do()
		mustNotGet(t, other, f.why)
		if f.long {
			outlives(t, held, f.why)
		}
		undo()
	}
	must.OK(t, held.Unlock(t.Context()))
	if next := q.lock(t, other, "x"); next.Token() <= held.Token() {
		t.Fatalf("token %v came after %v", next.Token(), held.Token())
	}
}

// lastSecond makes a server lose the release of a lock. The release is repeated:
// otherwise the session, which lives on, would keep the lock there forever.
func (q *quorumRig) lastSecond(t *testing.T, holder *quorumProcess, r *quorumNode) {
	t.Helper()
	y := q.lock(t, holder, "y")
	q.onAll(t, holder, y)
	rewind, err := r.server.Checkpoint()
	must.OK(t, err)
	must.OK(t, y.Unlock(t.Context()))
	r.eventually(t, "y", 0)
	must.OK(t, rewind())
	r.eventually(t, "y", 0)
	r.eventually(t, "x", 1)
}

// TestQuorumMajorityDown: with a majority away nothing is granted, and the holder is
// notified before another client can hold. When it is back the lock is there.
func TestQuorumMajorityDown(t *testing.T) {
	q := newQuorumRig(t, redisstore.Options{})
	holder, other := q.process(t, options()), q.process(t, options())
	held := q.lock(t, holder, "x")
	if err := q.lock(t, other, "y").Unlock(t.Context()); err != nil { // it has a session
		t.Fatal(err)
	}
	var resume []func()
	for _, r := range q.nodes[:3] {
		resume = append(resume, r.server.Pause())
	}
	mustNotGet(t, other, "a majority is away")
	select {
	case <-held.Context().Done():
	case <-time.After(2 * quorumTTL):
		t.Fatal("the holder was not notified within two TTLs")
	}
	if !errors.Is(held.Err(), fencelock.ErrLost) {
		t.Fatalf("got %v, want lost", held.Err())
	}
	mustNotGet(t, other, "the lease has ended and a majority is away")
	for _, f := range resume {
		f()
	}
	if next := q.lock(t, other, "x"); next.Token() <= held.Token() {
		t.Fatalf("token %v came after %v", next.Token(), held.Token())
	}
}

// TestQuorumOtherList: a client with another list of nodes is refused, loudly.
func TestQuorumOtherList(t *testing.T) {
	q := newQuorumRig(t, redisstore.Options{})
	holder := q.process(t, options())
	q.onAll(t, holder, q.lock(t, holder, "x"))
	var nodes []quorum.Node
	for i, r := range q.nodes[2:] { // three of the five, two of them are a majority
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i+2), Store: r.open(t)})
	}
	s, err := quorum.New(nodes, &quorum.Options{Alarm: func(quorum.Alarm) {}})
	must.OK(t, err)
	defer s.Close()
	_, _, err = s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: quorumTTL})
	if !errors.Is(err, driver.ErrRefused) {
		t.Fatalf("a client with another list got %v, want refused", err)
	}
	t.Log(err)
}
