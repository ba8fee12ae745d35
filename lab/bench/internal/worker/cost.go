// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"runtime"
	"syscall"
	"time"
)

// Cost is what a process spent, or has.
type Cost struct {
	// CPU is the time of all its threads, in user and kernel.
	CPU time.Duration
	// Mallocs is how many objects were allocated.
	Mallocs uint64
	// Heap is what is allocated and not yet freed.
	Heap int64
}

func costNow() Cost {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use) // cannot fail for oneself
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Cost{
		CPU:     time.Duration(use.Utime.Nano() + use.Stime.Nano()),
		Mallocs: m.Mallocs, Heap: int64(m.HeapAlloc),
	}
}

func (c Cost) minus(b Cost) Cost {
	return Cost{c.CPU - b.CPU, c.Mallocs - b.Mallocs, c.Heap - b.Heap}
}

// plus adds what several processes spent.
func (c Cost) plus(b Cost) Cost {
	return Cost{c.CPU + b.CPU, c.Mallocs + b.Mallocs, c.Heap + b.Heap}
}

// sampler keeps some of many values, spread evenly over the order they came in: a
// fast candidate does a million in a second, and they travel as text.
type sampler struct {
	kept   []float64
	stride int // one of so many is kept
	skip   int // so many come before the next that is kept
	seen   int
}

// most is how many values a sampler keeps.
const most = 1 << 12

func newSampler() *sampler { return &sampler{kept: make([]float64, 0, most), stride: 1} }

func (s *sampler) add(v float64) {
	s.seen++
	if s.skip > 0 {
		s.skip--
		return
	}
	if len(s.kept) == most { // keep every other one, of those to come as well
		for i := range most / 2 {
			s.kept[i] = s.kept[2*i]
		}
		s.kept = s.kept[:most/2]
		s.stride *= 2
	}
	s.kept = append(s.kept, v)
	s.skip = s.stride - 1
}
