// SPDX-License-Identifier: Apache-2.0

// Package worker does the work that is measured: in this process, or in separate
// processes, which are this program started again:
//
//	runner ──▶ Start(n) ──▶ bench (worker 0) ── one JSON line each ──▶ tasks in,
//	                   ╰──▶ bench (worker 1)                           results out
//
// Handoff between processes is measured with real processes: goroutines that
// play processes would be woken by one scheduler, without the kernel.
package worker

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
)

// Task is what lockers are asked to do.
type Task struct {
	// Name is the lock that all goroutines acquire. With Own set each goroutine has
	// another name that begins with Name.
	Name string
	Own  bool
	// Fresh makes it another name each time, with Own set.
	Fresh bool
	// Goroutines is how many work on each locker.
	Goroutines int
	// Section is how long each holds the lock.
	Section time.Duration
	// Pause is how long each does nothing after a turn.
	Pause time.Duration
	// Turns notes when each turn began and ended.
	Turns bool
	// Uncanceled gives the lockers a context that never ends, and Requests another one,
	// with a deadline, for every acquisition. Otherwise each goroutine has one context
	// that can be canceled, for all its acquisitions.
	Uncanceled, Requests bool
	// Tolerant goes on after a failure; without it a goroutine ends with its first.
	Tolerant bool
	// At is when to begin, at once if it has passed, and For how long to go on.
	At  time.Time
	For time.Duration
	// Hold is how many names to take and keep, instead of all that.
	Hold int
}

// Turn is one critical section, in ns of the wall clock: processes have no other
// in common. All of them run on one machine.
type Turn struct {
	// Worker counts the goroutines of all processes.
	Worker int
	// Acquired is when Lock had returned, Released when Unlock was called.
	Acquired, Released int64
}

// Result is what came of a task.
type Result struct {
	// Ops is how often a lock was taken and given back.
	Ops int
	// Took is how long it was done.
	Took time.Duration
	// Latencies are how long some of them took, in µs.
	Latencies []float64
	// Each is how often each goroutine did it.
	Each []float64
	// Turns are there if they were asked for.
	Turns []Turn
	// Cost is what the process spent.
	Cost Cost
	// Err is one of the failures, if any, and Failed how many there were.
	Err    string
	Failed int
}

// Rate is how many were done per second.
func (r *Result) Rate() float64 { return float64(r.Ops) / r.Took.Seconds() }

// stuck is how long after the end a goroutine may take for what it has begun.
const stuck = 30 * time.Second

// Run does a task with lockers, each of which stands for a process. first is the
// number of their first goroutine among all workers.
func Run(ctx context.Context, lockers []candidate.Locker, t Task, first int) *Result {
	pause(ctx, time.Until(t.At))
	if t.Hold > 0 {
		return hold(ctx, lockers, t)
	}
	// Canceled, not with a deadline: some candidates make more of a deadline
	// than that it ends the wait.
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var over atomic.Bool
	stop := func() {
		over.Store(true)
		if !t.Own {
			cancel()
		}
	}
	if t.Own { // no worker waits for its own name: let it finish, unless it cannot
		defer time.AfterFunc(t.For+stuck, cancel).Stop()
	}
	n := max(1, t.Goroutines) * len(lockers)
	loops := make([]*loop, n)
	before, began := costNow(), time.Now()
	defer time.AfterFunc(t.For, stop).Stop()
	var wg sync.WaitGroup
	for i := range loops {
		loops[i] = newLoop(t, lockers[i%len(lockers)], first+i)
		wg.Go(func() { loops[i].run(waiting, &over) })
	}
	if !within(t.For+2*stuck, wg.Wait) { // a context that never ends ends nothing
		return &Result{Took: time.Since(began), Err: "a goroutine did not come back from its lock", Failed: 1}
	}
	sum := &Result{Took: time.Since(began), Cost: costNow().minus(before)}
	for _, l := range loops {
		sum.Ops += l.latencies.seen
		sum.Each = append(sum.Each, float64(l.latencies.seen))
		sum.Latencies = append(sum.Latencies, l.latencies.kept...)
		sum.Turns = append(sum.Turns, l.turns...)
		sum.fail(l.err, l.failed)
	}
	return sum
}

// within reports whether wait returned in time.
func within(d time.Duration, wait func()) bool {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (r *Result) fail(err error, times int) {
	r.Failed += times
	if err != nil && r.Err == "" {
		r.Err = err.Error()
	}
}

// loop is one goroutine that takes turns.
type loop struct {
	task      Task
	locker    candidate.Locker
	name      string
	worker    int
	latencies *sampler
	turns     []Turn
	err       error
	failed    int
}

func newLoop(t Task, l candidate.Locker, worker int) *loop {
	name := t.Name
	if t.Own {
		name += "/" + strconv.Itoa(worker)
	}
	return &loop{task: t, locker: l, name: name, worker: worker, latencies: newSampler()}
}

// run takes turns until it is over.
func (l *loop) run(ctx context.Context, over *atomic.Bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.task.Uncanceled {
		ctx = context.WithoutCancel(ctx)
	}
	var turn Turn
	section := func() {
		turn = Turn{Worker: l.worker, Acquired: time.Now().UnixNano()}
		if l.task.Section > 0 {
			time.Sleep(l.task.Section)
		}
		turn.Released = time.Now().UnixNano()
	}
	if !l.task.Turns && l.task.Section == 0 {
		section = nil
	}
	for !over.Load() && ctx.Err() == nil {
		from := time.Now()
		name := l.name
		if l.task.Fresh {
			name += "/" + strconv.Itoa(l.latencies.seen)
		}
		err := l.turn(ctx, name, section)
		if err != nil {
			if ctx.Err() == nil || l.task.Own {
				l.err = err
				l.failed++
			}
			if l.task.Tolerant && ctx.Err() == nil {
				pause(ctx, time.Millisecond) // one that fails at once must not fill the machine
				continue
			}
			return
		}
		l.latencies.add(float64(time.Since(from).Nanoseconds()) / 1000)
		if l.task.Turns {
			l.turns = append(l.turns, turn)
		}
		pause(ctx, l.task.Pause)
	}
}

// requestTimeout is the deadline of a request.
const requestTimeout = 10 * time.Second

// turn takes one.
func (l *loop) turn(ctx context.Context, name string, section func()) error {
	if l.task.Requests {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	return candidate.Do(ctx, l.locker, name, section)
}

// holders is how many goroutines take the names to hold: enough to keep a
// pipeline full, few enough not to crowd two cores.
const holders = 256

// hold takes names and keeps them.
func hold(ctx context.Context, lockers []candidate.Locker, t Task) *Result {
	before, began := costNow(), time.Now()
	err := Parallel(holders, t.Hold, func(i int) error {
		_, err := lockers[i%len(lockers)].Lock(ctx, t.Name+"/"+strconv.Itoa(i))
		return err
	})
	r := &Result{Ops: t.Hold, Took: time.Since(began), Cost: costNow().minus(before)}
	if err != nil {
		r.fail(err, 1)
	}
	runtime.GC()
	r.Cost.Heap = costNow().Heap - before.Heap
	return r
}

// Parallel calls f for 0 to n-1 from so many goroutines, each of which ends with its first
// error, and returns one of the errors.
func Parallel(goroutines, n int, f func(i int) error) error {
	goroutines = min(goroutines, n)
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n && errs[g] == nil; i += goroutines {
				errs[g] = f(i)
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// pause lets time pass unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Handoffs is what the turns of all workers say together.
type Handoffs struct {
	// Cross are the times from one worker's call of Unlock to another's return
	// from Lock, in µs.
	Cross []float64
	// Same are those where the same worker came next.
	Same []float64
	// Overlaps is how often a turn began before the one before it had ended:
	// two held the lock.
	Overlaps int
	// Each is how many turns each worker had.
	Each []float64
}

// CrossShare is the share of turns that came from another worker.
func (h *Handoffs) CrossShare() float64 {
	return float64(len(h.Cross)) / float64(len(h.Cross)+len(h.Same))
}

// Jain is how evenly the turns were shared.
func (h *Handoffs) Jain() float64 { return stat.Jain(h.Each) }

// Between returns the turns that began within [from, to), in ns. Those at the
// edges of a run are not like the others: not every worker waits yet, or any more.
func Between(turns []Turn, workers int, from, to int64) *Handoffs {
	slices.SortFunc(turns, func(a, b Turn) int { return int(a.Acquired - b.Acquired) })
	h := &Handoffs{Each: make([]float64, workers)}
	for i, t := range turns {
		if t.Acquired < from || t.Acquired >= to {
			continue
		}
		h.Each[t.Worker]++
		if i == 0 {
			continue
		}
		before := turns[i-1]
		took := float64(t.Acquired-before.Released) / 1000
		switch {
		case took < 0:
			h.Overlaps++
		case before.Worker == t.Worker:
			h.Same = append(h.Same, took)
		default:
			h.Cross = append(h.Cross, took)
		}
	}
	return h
}
