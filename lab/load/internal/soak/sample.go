// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// Sample is what a process and a store have at one moment.
type Sample struct {
	// Second is when, since the beginning of the run.
	Second float64 `json:"second"`
	// Heap is the memory in use after garbage collection, in bytes.
	Heap int64 `json:"heap"`
	// Goroutines and Files are those of the measured process.
	Goroutines int64 `json:"goroutines"`
	Files      int64 `json:"files"`
	// Entries are keys, fields, rows or nodes in the store.
	Entries int64 `json:"entries"`
}

// exceeds reports whether a process has more than at first.
func (s Sample) exceeds(base Sample) bool {
	return s.Goroutines > base.Goroutines || s.Files > base.Files || s.Heap > base.Heap+heapSlack
}

// Tally counts what a process did.
type Tally struct {
	// Turns are operations, and Errors those that failed, as they may under a fault.
	Turns  int64 `json:"turns"`
	Errors int64 `json:"errors"`
	// Last is the last error.
	Last string `json:"last,omitempty"`
	// CPU is the processor time of the process in seconds.
	CPU float64 `json:"cpu"`
}

// ofProcess measures this process.
func ofProcess() Sample {
	// What a sync.Pool has is freed by the second collection after its last use.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Sample{Heap: int64(m.HeapAlloc), Goroutines: int64(runtime.NumGoroutine()), Files: files()}
}

// files counts the open file descriptors of this process.
func files() int64 {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int64(len(list)) - 1 // that of the folder itself
}

// processorTime is that of this process in seconds.
func processorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// metric is one of the series that must not grow.
type metric struct {
	name, unit string
	of         func(Sample) float64
	// slack is how much more may be left at the end than there was at first.
	slack float64
}

// heapSlack is what packages keep for themselves once they were used: tables of types, buffers of the runtime, parsed
// scripts.
const heapSlack = 1 << 20

var metrics = []metric{
	{"heap", "bytes", func(s Sample) float64 { return float64(s.Heap) }, heapSlack},
	{"goroutines", "goroutines", func(s Sample) float64 { return float64(s.Goroutines) }, 0},
	{"files", "file descriptors", func(s Sample) float64 { return float64(s.Files) }, 0},
	{"entries", "entries", func(s Sample) float64 { return float64(s.Entries) }, 0},
}
