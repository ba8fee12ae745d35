// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/faultstore"
	"github.com/fencelock/fencelock/quorum"
	"github.com/fencelock/fencelock/redisstore"
)

// quorumTTL is long for a loaded machine and short for somebody who waits.
const quorumTTL = 4 * time.Second

func newQuorum(t *testing.T) *quorumRig {
	return newQuorumRig(t, redisstore.Options{Grace: true, MaxTTL: quorumTTL})
}

func options() *fencelock.Options { return &fencelock.Options{TTL: quorumTTL} }

func (q *quorumRig) lock(t *testing.T, c *fencelock.Client) *fencelock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := c.Mutex("x").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
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

// onAll waits until every server has the lease: a slow one gets it with the next
// keep-alive, and only then a minority can be spared.
func (q *quorumRig) onAll(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range q.nodes {
		s := r.lib.open(t, r.login, &r.opts)
		for {
			st, err := s.Inspect(ctx, "x")
			if err == nil && len(st.Holders) > 0 {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s does not get the lease: %v", r.server.Addr, err)
			case <-time.After(quorumTTL / 20):
			}
		}
	}
}

// mustNotGet fails if another process gets the lock within a time in which a node
// that came back empty would have forgotten its quarantine.
func mustNotGet(t *testing.T, c *fencelock.Client, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), quorumTTL/2)
	defer cancel()
	if l, err := c.Mutex("x").Lock(ctx); err == nil {
		t.Fatalf("%s: a second process holds the lock, with token %v", why, l.Token())
	}
}

// TestQuorumSurvivesItsNodes: a lease outlives what may happen to a minority, and
// nobody else gets in: servers killed and gone, killed and back empty, stopped and
// resumed, and all of them flushed at once.
func TestQuorumSurvivesItsNodes(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	holder, other := q.process(t, options()), q.process(t, options())
	held := q.lock(t, holder)
	for _, f := range []struct {
		why string
		do  func() (undo func())
	}{
		{"two servers killed", func() func() {
			q.nodes[0].server.Kill()
			q.nodes[1].server.Kill()
			return func() { q.nodes[0].server.Restart(); q.nodes[1].server.Restart() }
		}},
		{"the two are back, empty", func() func() { return nil }},
		{"two servers stopped", func() func() {
			a, b := q.nodes[2].server.Stop(), q.nodes[3].server.Stop()
			return func() { a(); b() }
		}},
		{"the two resumed", func() func() { return nil }},
		{"one wiped", func() func() { q.nodes[4].server.Do("FLUSHALL"); return nil }},
		{"all flushed at once", func() func() {
			_ = q.each(func(r *quorumNode) error { return r.server.Do("FLUSHALL").Err() })
			return nil
		}},
	} {
		q.onAll(t)
		t.Log(f.why)
		undo := f.do()
		mustNotGet(t, other, f.why)
		outlives(t, held, f.why)
		if undo != nil {
			undo()
		}
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := q.lock(t, other); next.Token() <= held.Token() {
		t.Fatalf("token %v came after %v", next.Token(), held.Token())
	}
}

// TestQuorumMajorityDown: with a majority away nothing is granted, and the holder is
// told before anybody else can hold.
func TestQuorumMajorityDown(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	held := q.lock(t, q.process(t, options()))
	var resume []func()
	for _, r := range q.nodes[:3] {
		resume = append(resume, r.server.Stop())
	}
	defer func() {
		for _, f := range resume {
			f()
		}
	}()
	select {
	case <-held.Context().Done():
	case <-time.After(2 * quorumTTL):
		t.Fatal("the holder was not told within two TTLs")
	}
	if !errors.Is(held.Err(), fencelock.ErrLost) {
		t.Fatalf("got %v, want lost", held.Err())
	}
}

// TestQuorumOtherList: a client with another list of nodes is refused, loudly.
func TestQuorumOtherList(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	q.lock(t, q.process(t, options()))
	var nodes []quorum.Node
	for i, r := range q.nodes[2:] { // three of the five, two of them are a majority
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i+2), Store: r.lib.open(t, r.login, &r.opts).Store})
	}
	s, err := quorum.New(nodes, &quorum.Options{Alarm: func(quorum.Alarm) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Wait()
	_, _, err = s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: quorumTTL})
	if !errors.Is(err, driver.ErrRefused) {
		t.Fatalf("a client with another list got %v, want refused", err)
	}
	t.Log(err)
}

// TestQuorumTokensUnderFire: processes with bad connections compete while servers
// are killed and come back empty, one at a time. Tokens are unique and rise.
func TestQuorumTokensUnderFire(t *testing.T) {
	t.Parallel()
	const length = 15 * time.Second
	q := newQuorum(t)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var mu sync.Mutex
	var history []grantSeen
	var wg sync.WaitGroup
	for p := range 4 {
		c := q.processOf(t, options(), func(i int, s driver.Store) driver.Store { return lossy(t, s, uint64(p*10+i)) })
		wg.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				l, err := c.Mutex("x").Lock(ctx)
				if err != nil {
					continue
				}
				mu.Lock()
				history = append(history, grantSeen{asked, time.Now(), l.Token()})
				mu.Unlock()
				_ = l.Unlock(context.Background())
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 1))
	kills := 0
	for tick := time.NewTicker(length / 8); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			tick.Stop()
		case <-tick.C:
			kills++
			q.nodes[r.IntN(len(q.nodes))].server.Restart()
		}
	}
	wg.Wait()
	violations := 0
	for i, a := range history {
		for _, b := range history[:i] {
			if a.token == b.token || a.got.Before(b.asked) && a.token > b.token || b.got.Before(a.asked) && b.token > a.token {
				violations++
			}
		}
	}
	t.Logf("%d grants, %d kills, %d violations", len(history), kills, violations)
	if violations > 0 || len(history) < 20 {
		t.Errorf("%d of %d grants have a token out of order", violations, len(history))
	}
}

// grantSeen is a grant as its process saw it.
type grantSeen struct {
	asked, got time.Time
	token      fencelock.Token
}

// lossy loses replies and sends again.
func lossy(t testing.TB, s driver.Store, seed uint64) driver.Store {
	f, err := faultstore.Wrap(s, faultstore.Any(
		faultstore.Prob(0.02, seed, faultstore.LoseReply()),
		faultstore.Prob(0.05, seed+1, faultstore.Delay(5*time.Millisecond, 5*time.Millisecond)),
		faultstore.On(faultstore.Attempt, faultstore.Prob(0.05, seed+2, faultstore.Dup())),
	), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Wait)
	return f
}
