// SPDX-License-Identifier: Apache-2.0

package lockview

import (
	"maps"
	"slices"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/graph"
)

// UnderLabel names the holder under whose lock a process runs.
const UnderLabel = "under"

// Blocking returns the locks that can be part of a wait: those that are waited for, and
// those held by an owner that waits. All others would only be in the way.
func Blocking(locks []fencelock.Status) []fencelock.Status {
	waits, under := map[string]bool{}, map[string]string{}
	for i := range locks {
		for _, h := range locks[i].Holders {
			if outer := h.Record.Labels[UnderLabel]; outer != "" {
				under[h.Record.Owner] = outer
			}
		}
		for _, w := range locks[i].Waiters {
			waits[w.Record.Owner] = true
			if outer := w.Record.Labels[UnderLabel]; outer != "" {
				under[w.Record.Owner] = outer
			}
		}
	}
	for owner := range maps.Clone(waits) {
		for outer := under[owner]; outer != "" && !waits[outer]; outer = under[outer] {
			waits[outer] = true
		}
	}
	var all []fencelock.Status
	for i := range locks {
		st := &locks[i]
		if st.Waiting > 0 || slices.ContainsFunc(st.Holders, func(h fencelock.Holder) bool { return waits[h.Record.Owner] }) {
			all = append(all, *st)
		}
	}
	return all
}

// Parties are the locks as the graph wants them.
func Parties(locks []fencelock.Status) []graph.Lock {
	var all []graph.Lock
	for _, st := range locks {
		l := graph.Lock{Name: st.Name}
		for _, h := range st.Holders {
			if !h.Kept { // no process is behind it
				l.Holders = append(l.Holders, graph.Party{Owner: h.Record.Owner, Under: h.Record.Labels[UnderLabel]})
			}
		}
		for _, w := range st.Waiters {
			l.Waiters = append(l.Waiters, graph.Party{Owner: w.Record.Owner, Under: w.Record.Labels[UnderLabel]})
		}
		all = append(all, l)
	}
	return all
}
