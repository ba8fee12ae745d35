// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"

	"github.com/fencelock/fencelock/lab/bench/internal/stat"
)

// Handoffs is what the turns of all workers say together.
type Handoffs struct {
	// Cross are the times from one worker's call of Unlock to another's return
	// from Lock, in µs.
	Cross []float64
	// Same are those where the same worker came next.
	Same []float64
	// Overlaps is how often a turn began before the one before it had ended:
	// two held the lock.
	Overlaps int
	// Each is how many turns each worker had.
	Each []float64
}

// CrossShare is the share of turns that came from another worker.
func (h *Handoffs) CrossShare() float64 {
	return float64(len(h.Cross)) / float64(len(h.Cross)+len(h.Same))
}

// Jain is how evenly the turns were shared.
func (h *Handoffs) Jain() float64 { return stat.Jain(h.Each) }

// Between returns the turns that began within [from, to), in ns. Those at the
// edges of a run are not like the others: not every worker waits yet, or any more.
func Between(turns []Turn, workers int, from, to int64) *Handoffs {
	slices.SortFunc(turns, func(a, b Turn) int { return int(a.Acquired - b.Acquired) })
	h := &Handoffs{Each: make([]float64, workers)}
	for i, t := range turns {
		if t.Acquired < from || t.Acquired >= to {
			continue
		}
		h.Each[t.Worker]++
		if i == 0 {
			continue
		}
		before := turns[i-1]
		took := float64(t.Acquired-before.Released) / 1000
		switch {
		case took < 0:
			h.Overlaps++
		case before.Worker == t.Worker:
			h.Same = append(h.Same, took)
		default:
			h.Cross = append(h.Cross, took)
		}
	}
	return h
}
