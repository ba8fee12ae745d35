// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"container/heap"
	"time"
)

// keptLock is a lock that is kept taken until a moment although its claim is
// gone. No session ends it, and the name may never be asked for again: without a
// list by time the mark of every occurrence of a job would stay in memory.
type keptLock struct {
	until time.Time
	name  string
}

// free frees the locks that were kept until now, and drops what only a grace
// period needs. mu must be held.
func (sh *shard) free(now time.Time) {
	for len(sh.kept) > 0 && !now.Before(sh.kept[0].until) {
		name := heap.Pop(&sh.kept).(keptLock).name
		sh.refresh(name, now)
		sh.tidy(name)
	}
	if len(sh.reclaimed) > 0 && sh.grace(now) == 0 {
		clear(sh.reclaimed)
	}
}

// keptHeap is a heap of kept locks by their end.
type keptHeap []keptLock

func (h keptHeap) Len() int           { return len(h) }
func (h keptHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h keptHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *keptHeap) Push(x any) { *h = append(*h, x.(keptLock)) }

// Pop implements heap.Interface.
func (h *keptHeap) Pop() any {
	old := *h
	k := old[len(old)-1]
	*h = old[:len(old)-1]
	return k
}
