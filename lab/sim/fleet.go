// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Fleet runs many schedules at once, each in its own bubble.
type Fleet struct {
	From, Seeds uint64
	Fault       string // replaces the schedules' own if not empty
	Repeat      int    // runs of each seed; 0: one
	Stop        string // at the first violation of this checker; "any": of whichever
	Verbose     bool   // print every event of the violating run, or of the last
	Print       func(string)
	Progress    time.Duration // how often to print how far it is; 0: never

	Coverage Coverage

	next    atomic.Uint64
	running sync.Map   // seed → when its run began
	mu      sync.Mutex // guards what follows
	ran     int
	found   int
	stop    bool
}

// Run runs all schedules on as many workers as there are processors and returns
// how many there were and how many of them violated something.
func (f *Fleet) Run(t *testing.T) (ran, violated int) {
	t.Setenv("GODEBUG", os.Getenv("GODEBUG")+",tracebacklabels=1")
	done := make(chan struct{})
	defer close(done)
	go f.watch(done)
	if f.Progress > 0 {
		go f.progress(done)
	}
	t.Run("fleet", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for f.one(t) {
				}
			})
		}
	})
	return f.ran, f.found
}

// progress prints now and then how far the fleet is.
func (f *Fleet) progress(done chan struct{}) {
	began := time.Now()
	for {
		select {
		case <-done:
			return
		case <-time.After(f.Progress):
		}
		f.mu.Lock()
		f.Print(fmt.Sprintf("sim: seeds %d-%d, %d of %d schedules, %d violations, %.0f schedules/s\n", f.From, f.From+f.Seeds-1,
			f.ran, f.Seeds, f.found, float64(f.ran)/time.Since(began).Seconds()))
		f.mu.Unlock()
	}
}

// tooLong is more real time than any schedule takes.
const tooLong = 40 * time.Second

// watch ends the process when a schedule does not end. Fake time stands still
// while a goroutine spins or waits for a mutex, so nothing in the bubble can detect it.
func (f *Fleet) watch(done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Second):
		}
		f.running.Range(func(seed, began any) bool {
			if time.Since(began.(time.Time)) > tooLong {
				v := Violation{Checker: "hang", What: "the schedule does not end; a goroutine spins or waits for a mutex\n" + bubbled(seed.(uint64))}
				f.Print(v.Report(Make(seed.(uint64))))
				os.Exit(1)
			}
			return true
		})
	}
}

// one takes the next seed and runs it. It returns false when there is nothing left to
// run.
func (f *Fleet) one(t *testing.T) bool {
	n := f.next.Add(1) - 1
	f.mu.Lock()
	stop := f.stop
	f.mu.Unlock()
	if n >= f.Seeds || stop {
		return false
	}
	times := max(1, f.Repeat)
	for i := range times {
		s := Make(f.From + n)
		if f.Fault != "" {
			s.Override(f.Fault)
		}
		if f.judge(t, s, i == times-1) {
			break // more of the same would say nothing new
		}
	}
	f.mu.Lock()
	f.ran++
	f.mu.Unlock()
	return true
}

// judge runs one schedule and prints what it violated. last says that the seed
// is not run again.
func (f *Fleet) judge(t *testing.T, s *Schedule, last bool) (violated bool) {
	var cover Coverage
	f.running.Store(s.Seed, time.Now())
	h, err := bubble(t, s, &cover)
	f.running.Delete(s.Seed)
	if err != nil {
		t.Errorf("seed %d: %v", s.Seed, err)
		return true
	}
	found := Check(h)
	f.Coverage.Merge(&cover)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Verbose && (last || len(found) > 0) {
		f.Print(s.String() + h.Lines())
	}
	for _, v := range found {
		f.Print(v.Report(s))
	}
	if len(found) == 0 {
		return false
	}
	t.Fail()
	f.found++
	for _, v := range found {
		f.stop = f.stop || f.Stop == "any" || f.Stop == v.Checker
	}
	return true
}

// bubble runs one schedule in fake time.
func bubble(t *testing.T, s *Schedule, cover *Coverage) (h *History, err error) {
	h = &History{Schedule: s}
	stuck := inBubble(t, s.Seed, func() {
		ran, e := Run(s, cover)
		err = e
		if e == nil {
			*h = *ran
		}
	})
	if stuck != nil {
		h.Stuck = stuck
	}
	return h, err
}

// inBubble runs f in its own bubble. The label names the seed in the
// traceback of a panic. A deadlock, or a goroutine that is left over, makes the
// bubble panic; that is the error.
func inBubble(t *testing.T, seed uint64, f func()) (err error) {
	defer pprof.SetGoroutineLabels(context.Background())
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("sim.seed", strconv.FormatUint(seed, 10))))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v\n%s", r, bubbled(seed))
		}
	}()
	synctest.Test(t, func(*testing.T) { f() })
	return nil
}

// bubbled returns the stacks of the goroutines that still carry a seed's label.
func bubbled(seed uint64) string {
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	var mine []string
	for _, g := range all {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(head, fmt.Sprintf("%q", strconv.FormatUint(seed, 10))) && strings.Contains(head, "bubble") {
			mine = append(mine, g)
		}
	}
	if len(mine) == 0 {
		return errors.New("no goroutine of it is left").Error()
	}
	return strings.Join(mine, "\n\n")
}
