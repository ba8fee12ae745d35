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
