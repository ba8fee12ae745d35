// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/graph"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/view"
)

// maxGraph is how many locks and waiters of each the graph has: more cannot be drawn.
const (
	maxGraph        = 150
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
	locks := view.Blocking(snapshot.Visible(c.caller.Sees))
	g := graph.New(view.Parties(locks))
	answer := waitGraph{asOf: at, Locks: []graphLock{}, Cycles: append([][]graph.Step{}, g.Cycles()...)}
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
				l.Holders = append(l.Holders, h.Record.Owner)
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
	return reply(w, answer)
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
