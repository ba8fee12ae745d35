// SPDX-License-Identifier: Apache-2.0

package view

import (
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/graph"
)

// UnderLabel names the holder under whose lock a process runs.
const UnderLabel = "under"

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
