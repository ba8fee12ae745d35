// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"
	"slices"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/graph"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
)

// maxGraph is how many locks the graph has, and holders and waiters of each: more cannot be
// drawn.
const (
	maxGraph        = 150
	maxGraphHolders = 20
	maxGraphWaiters = 20
)

// waitGraph is who waits for whom.
type waitGraph struct {
	asOf
	Locks []graphLock `json:"locks"`
	// LeftOut counts locks that belong to the graph and are not in it.
	LeftOut int `json:"left_out"`
	// Cycles are processes that wait for each other: each holds its lock and waits for the
	// next one.
	Cycles [][]graph.Step `json:"cycles"`
}

type graphLock struct {
	Lock    string   `json:"lock"`
	Holders []string `json:"holders"`
	Waiters []string `json:"waiters"`
	Waiting int      `json:"waiting"`
}

func (s *Server) graph(w http.ResponseWriter, c *call) error {
	snapshot, at, err := s.current(c)
	if err != nil {
		return err
	}
	answer := s.graphs.of(snapshot.Revision, c.caller.Scope(), func() waitGraph {
		return graphOf(lockview.Blocking(snapshot.Visible(c.caller.Sees)))
	})
	answer.asOf = at
	return reply(w, answer)
}

// graphs are the graphs of one snapshot, by what their viewers may see. A graph is the only
// answer whose cost grows with the square of a tangle, so it is computed once for all.
type graphs struct {
	mu       sync.Mutex
	revision uint64
	made     map[string]func() waitGraph
}

func (g *graphs) of(revision uint64, scope string, compute func() waitGraph) waitGraph {
	g.mu.Lock()
	if g.made == nil || g.revision != revision {
		g.revision, g.made = revision, map[string]func() waitGraph{}
	}
	if g.made[scope] == nil {
		g.made[scope] = sync.OnceValue(compute)
	}
	made := g.made[scope]
	g.mu.Unlock()
	return made()
}

// graphOf computes the graph of some locks.
func graphOf(locks []fencelock.Status) waitGraph {
	g := graph.New(lockview.Parties(locks))
	answer := waitGraph{Locks: []graphLock{}, Cycles: append([][]graph.Step{}, g.Cycles()...)}
	inCycle := map[string]bool{}
	for _, cycle := range answer.Cycles {
		for _, step := range cycle {
			inCycle[step.Lock] = true
		}
	}
	for i := range locks {
		st := &locks[i]
		l := graphLock{Lock: st.Name, Waiting: st.Waiting, Holders: []string{}, Waiters: []string{}}
		blocked := false
		for _, h := range st.Holders {
			if !h.Kept {
				if len(l.Holders) < maxGraphHolders {
					l.Holders = append(l.Holders, h.Record.Owner)
				}
				blocked = blocked || len(g.Waits(h.Record.Owner)) > 0
			}
		}
		for _, waiter := range st.Waiters[:min(len(st.Waiters), maxGraphWaiters)] {
			l.Waiters = append(l.Waiters, waiter.Record.Owner)
		}
		if st.Waiting > 0 || blocked {
			answer.Locks = append(answer.Locks, l)
		}
	}
	slices.SortStableFunc(answer.Locks, func(a, b graphLock) int {
		return cmp.Or(compareBool(inCycle[b.Lock], inCycle[a.Lock]), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Lock, b.Lock))
	})
	answer.LeftOut = max(0, len(answer.Locks)-maxGraph)
	answer.Locks = answer.Locks[:len(answer.Locks)-answer.LeftOut]
	return answer
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
