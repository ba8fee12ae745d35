// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/fencelock/fencelock/internal/testhook"
)

// quiet writes down what the store keeps when all workers have ended.
func (w *world) quiet() {
	time.Sleep(w.s.T / 8) // what an election keeps is free then
	for _, s := range testhook.MemstoreRemains(w.store).Sessions {
		client := w.line.owner(s.ID)
		w.rec.h.Left = append(w.rec.h.Left, Left{Client: client, Alive: w.procs[client].alive.Err() == nil, Session: s})
		w.cover.add("left: a session")
		if s.Tombstones > 0 {
			w.cover.add("left: tombstones")
		}
	}
}

// empty writes down what the store keeps when all clients are closed and every
// mark has run out.
func (w *world) empty() {
	time.Sleep(markKeep(w.s.T) + 2*w.s.T)
	all := testhook.MemstoreRemains(w.store)
	if len(all.Sessions) > 0 || len(all.Kept) > 0 || len(all.Empty)+all.Reclaimed > 0 {
		w.rec.h.Rest = fmt.Sprintf("%+v", all)
	}
}
