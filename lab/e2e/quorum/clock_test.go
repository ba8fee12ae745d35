// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
)

// TestQuorumClocks steps the clocks of real servers. One that jumps ahead ends the
// session there, and one that jumps back keeps it; the lease outlives both, because it
// is on more than a majority. The server does not count until its clock is back. When
// the clocks of a majority jump, another client gets in: with a higher token, and the
// holder is notified.
func TestQuorumClocks(t *testing.T) {
	q := &quorumRig{}
	for range quorumSize {
		server := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.StartClocked() })
		q.nodes = append(q.nodes, &quorumNode{opts: redisstore.Options{MaxTTL: quorumTTL}, server: server})
	}
	holder, other := q.process(t, options()), q.process(t, options())
	held := q.lock(t, holder, "x")
	q.onAll(t, holder, held)
	t.Log("the clock of n0 is an hour ahead, that of n1 an hour behind")
	q.nodes[0].setClock(t, time.Hour)
	q.nodes[1].setClock(t, -time.Hour)
	mustNotGet(t, other, "clocks were stepped")
	holder.counted(t, "n0", false)
	holder.counted(t, "n1", false)
	outlives(t, held, "clocks were stepped")
	q.nodes[0].setClock(t, 0)
	q.nodes[1].setClock(t, 0)
	holder.counted(t, "n0", true)
	holder.counted(t, "n1", true)
	q.onAll(t, holder, held)
	t.Log("the clocks of n0, n1 and n2 are two TTLs ahead")
	for _, r := range q.nodes[:3] {
		r.setClock(t, 2*quorumTTL)
	}
	next := q.lock(t, q.process(t, options()), "x") // its session is younger than the step
	if next.Token() <= held.Token() {
		t.Errorf("token %v came after %v", next.Token(), held.Token())
	}
	select {
	case <-held.Context().Done():
	case <-time.After(quorumTTL):
		t.Fatal("the first holder was not notified within a TTL")
	}
	if !errors.Is(held.Err(), fencelock.ErrLost) {
		t.Errorf("the first holder has %v, want lost", held.Err())
	}
}

// counted waits until the process has found out whether a server counts.
func (p *quorumProcess) counted(t *testing.T, name string, want bool) {
	t.Helper()
	for end := time.Now().Add(5 * quorumTTL); time.Now().Before(end); <-time.After(quorumTTL / 40) {
		if slices.ContainsFunc(p.store.Health(), func(h quorum.NodeHealth) bool { return h.Name == name && h.Counted == want }) {
			return
		}
	}
	t.Fatalf("%s counts: %t; want %t; %+v", name, !want, want, p.store.Health())
}

// setClock sets how far the clock of a server is ahead.
func (r *quorumNode) setClock(t *testing.T, ahead time.Duration) {
	t.Helper()
	must.OK(t, r.server.Clock().Set(ahead))
}
