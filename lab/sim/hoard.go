// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// hoardName returns one of the names that are locked by the dozen.
func hoardName(i int) Name { return Name{Name: fmt.Sprintf("hoard-%02d", i)} }

// hoard locks tens of names, holds them all for a while and unlocks them
// together.
func (k *worker) hoard() {
	s := k.w.s
	patience := max(0, min(share(k.r, s.T, 0.5, 2), s.End+2*s.T-k.w.rec.now()))
	ctx, cancel := context.WithTimeout(k.p.alive, patience)
	defer cancel()
	held := map[int]*fencelock.Lease{}
	from := k.r.IntN(3) // so that two hoards differ
	for i := from; i < s.Hoard && ctx.Err() == nil; i++ {
		o := op{name: hoardName(i), weight: 1, try: k.r.IntN(4) == 0}
		end, _ := ctx.Deadline()
		id := k.w.rec.call(o.event(k.p.index, k.index, time.Until(end)))
		l, err := o.acquire(ctx, k.p.client)
		k.w.returned(k.p.index, k.index, id, l, err)
		if l != nil {
			held[id] = l
		}
	}
	if len(held) >= 20 {
		k.w.cover.add("tens of leases")
	}
	k.p.sleep(k.bounded(share(k.r, s.T, 0, 1)))
	if k.p.dead.Load() {
		return
	}
	var all sync.WaitGroup
	for id, l := range held {
		all.Go(func() { k.w.unlock(k.p.index, k.index, id, l) })
	}
	all.Wait()
}
