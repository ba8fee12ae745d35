// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// notices are the messages by which the store notifies a client that another one waits. Some
// are sent twice, and during a storm some are lost or late, whatever the network does
// otherwise: nothing may depend on them but time.
type notices struct {
	w *world

	mu sync.Mutex
	r  *rand.Rand
}

func newNotices(w *world, client int) *notices {
	return &notices{w: w, r: rand.New(rand.NewPCG(w.s.Seed, uint64(client)|1<<40))}
}

// through returns what the store calls instead of wanted. A nil n is fine.
func (n *notices) through(wanted func(uint64)) func(uint64) {
	if n == nil || wanted == nil {
		return wanted
	}
	return func(seq uint64) {
		n.mu.Lock()
		chance, late := n.r.IntN(6), share(n.r, n.w.s.T, 0, 0.3)
		n.mu.Unlock()
		if n.w.s.Weather < Storm && chance != 1 || n.w.rec.now() >= n.w.s.End {
			chance = -1
		}
		switch chance {
		case 0:
			n.w.cover.add("notice: lost")
			return
		case 1:
			n.w.cover.add("notice: twice")
			wanted(seq)
		case 2:
			n.w.cover.add("notice: late")
			time.AfterFunc(late, func() { wanted(seq) })
			return
		}
		wanted(seq)
	}
}

// giveWay ends the work under a lease when another caller waits for the lock.
func (k *worker) giveWay(ctx context.Context, l *fencelock.Lease, stop func()) {
	wanted := l.Contended()
	if wanted == nil {
		return // it has ended
	}
	go func() {
		select {
		case <-wanted:
			k.w.cover.add("gave way")
			stop()
		case <-ctx.Done():
		}
	}()
}
