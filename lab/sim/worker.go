// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// worker is one goroutine of a process. All its decisions come from its own generator.
type worker struct {
	p     *process
	w     *world
	index int
	r     *rand.Rand
	rude  bool // works on after it was notified that its lease has ended
}

func newWorker(p *process, i int) *worker {
	r := rand.New(rand.NewPCG(p.w.s.Seed, uint64(p.index)<<8|uint64(i)|1<<32))
	return &worker{p: p, w: p.w, index: i, r: r, rude: r.IntN(10) == 0}
}

// op is one acquisition that a worker decided on.
type op struct {
	name   Name
	mode   driver.Mode
	weight int64
	try    bool
	keep   time.Duration // MinHold
	fixed  time.Duration // MaxHold
	as     string        // ReentrantAs
	linger time.Duration // Linger
}

// exclusiveOf returns the mode of the strongest acquisition of a name.
func exclusiveOf(n Name) driver.Mode {
	if n.Kind == SemaphoreName {
		return driver.Shared
	}
	return driver.Exclusive
}

func (o op) event(client, worker int, patience time.Duration) Event {
	return Event{Client: client, Worker: worker, Name: o.name.Name, Mode: o.mode, Weight: o.weight, Limit: o.name.Limit,
		Try: o.try, D: patience, Keep: o.keep, Linger: o.linger > 0, Reentry: o.as}
}

func (o op) options() (opts []fencelock.LockOption) {
	if o.keep > 0 {
		opts = append(opts, fencelock.MinHold(o.keep))
	}
	if o.fixed > 0 {
		opts = append(opts, fencelock.MaxHold(o.fixed))
	}
	if o.as != "" {
		opts = append(opts, fencelock.ReentrantAs(o.as))
	}
	if o.linger > 0 {
		opts = append(opts, fencelock.Linger(o.linger))
	}
	return opts
}

// acquire makes the call.
func (o op) acquire(ctx context.Context, c *fencelock.Client) (*fencelock.Lease, error) {
	opts := o.options()
	switch {
	case o.name.Kind == SemaphoreName && o.try:
		return c.Semaphore(o.name.Name, o.name.Limit, opts...).TryAcquire(ctx, o.weight)
	case o.name.Kind == SemaphoreName:
		return c.Semaphore(o.name.Name, o.name.Limit, opts...).Acquire(ctx, o.weight)
	case o.mode == driver.Shared && o.try:
		return c.RWMutex(o.name.Name, opts...).TryRLock(ctx)
	case o.mode == driver.Shared:
		return c.RWMutex(o.name.Name, opts...).RLock(ctx)
	case o.try:
		return c.Mutex(o.name.Name, opts...).TryLock(ctx)
	}
	return c.Mutex(o.name.Name, opts...).Lock(ctx)
}

// choose decides on the next acquisition.
func (k *worker) choose(tail bool) op {
	t := k.w.s.T
	o := op{name: pick(k.r, k.w.s.Names...), weight: 1}
	o.mode = exclusiveOf(o.name)
	switch o.name.Kind {
	case SemaphoreName:
		o.weight = 1 + k.r.Int64N(o.name.Limit)
	case RWName:
		o.mode = pick(k.r, driver.Shared, driver.Shared, driver.Exclusive)
	}
	if tail {
		return o
	}
	if k.w.s.Short && k.r.IntN(4) == 0 {
		o.fixed, o.try = share(k.r, t, 0.02, 0.3), k.r.IntN(3) == 0
		return o
	}
	o.try = k.r.IntN(5) == 0
	switch k.r.IntN(25) {
	case 0:
		o.keep = share(k.r, t, 0.01, 0.3)
	case 1:
		o.fixed = share(k.r, t, 0.05, 1.2)
	case 2, 3:
		if o.name.Kind == MutexName {
			o.as = pick(k.r, "task-1", "task-2")
		}
	case 4, 5, 6, 7, 8, 9:
		if o.name.Kind == MutexName && k.p.client.Guarantees().Linger {
			o.linger = pick(k.r, t/10, t/4)
		}
	}
	return o
}

// run is the life of a worker: a storm, then a quiet time in which everything
// must work.
func (k *worker) run() {
	s := k.w.s
	think := time.Duration(float64(s.T) / s.Zeal / 4)
	for k.w.rec.now() < s.End {
		if !k.p.sleep(k.grid(share(k.r, think, 0, 2))) {
			return
		}
		if s.Jobs && k.r.IntN(3) == 0 {
			if k.r.IntN(4) == 0 {
				k.once(op{name: Name{Name: k.job()}, weight: 1}, k.patience(), 0) // it must wait for the mark to end
			} else {
				k.occurrence()
			}
			continue
		}
		if s.Hoard > 0 && k.index == 0 && k.r.IntN(4) == 0 {
			k.hoard()
			continue
		}
		switch k.r.IntN(25) {
		case 0:
			k.all(k.grid(k.patience()), k.grid(k.holdTime()))
		case 1:
			k.occurrence()
		default:
			k.once(k.choose(false), k.grid(k.patience()), k.grid(k.holdTime()))
		}
	}
	for s.Restless && k.index == 0 && k.w.rec.now() < s.Clear()-s.T {
		if !k.p.sleep(share(k.r, s.T, 0.2, 0.5)) {
			return
		}
		o := k.choose(true)
		o.try = true
		k.once(o, s.T, 0)
	}
	if !k.p.sleep(s.Clear() + share(k.r, s.T, 0.01, 0.1) - k.w.rec.now()) {
		return
	}
	for range s.TailOps {
		k.once(k.choose(true), s.Bound(), share(k.r, tailHold(s.T), 0, 1))
		if !k.p.sleep(share(k.r, s.T, 0, 0.05)) {
			return
		}
	}
}

// grid rounds a time to the schedule's grid.
func (k *worker) grid(d time.Duration) time.Duration {
	if g := k.w.s.Grid; g > 0 {
		return (d + g/2) / g * g
	}
	return d
}

// patience is how long a worker waits for a lock. All of it is over soon after
// the storm.
func (k *worker) patience() time.Duration {
	s := k.w.s
	d := share(k.r, s.T, 0.5, 3)
	switch k.r.IntN(5) {
	case 0:
		d = share(k.r, s.T, 0, 0.5)
	case 1:
		d = share(k.r, s.T, 3, 8)
	}
	return max(0, min(d, s.End+2*s.T-k.w.rec.now()))
}

func (k *worker) holdTime() time.Duration {
	t, long := k.w.s.T, 10
	if k.w.s.Weather >= Storm {
		long = 5 // so that there is something to lose
	}
	switch {
	case k.w.s.Weather == Outage && k.r.IntN(3) == 0:
		return share(k.r, t, 0.5, 3)
	case k.r.IntN(long) == 0:
		return share(k.r, t, 0.5, 2)
	case k.r.IntN(2) == 0:
		return 0
	}
	return share(k.r, t, 0, 0.06)
}

// once acquires, works and unlocks.
func (k *worker) once(o op, patience, hold time.Duration) {
	ctx, cancel := context.WithTimeout(k.p.alive, patience)
	defer cancel()
	me, i := k.p.index, k.index
	id := k.w.rec.call(o.event(me, i, patience))
	here := &seat{o.name.Name, me, cancel}
	if k.w.rec.now() < k.w.s.Clear() && !o.try {
		k.w.bench.sit(here)
	}
	l, err := o.acquire(ctx, k.p.client)
	k.w.bench.rise(here)
	k.w.returned(me, i, id, l, err)
	k.w.cover.answer(o, err)
	if l == nil {
		return
	}
	k.work(o, id, l, k.bounded(hold))
	k.p.machine.wait()
	if k.p.dead.Load() {
		return // a dead process unlocks nothing
	}
	if k.r.IntN(8) == 0 && k.w.bench.jolt(o.name.Name, me) {
		k.w.cover.add("jolted") // and unlock before it can run
	}
	k.w.unlock(me, i, id, l)
}

// bounded ends every hold of the storm soon after it.
func (k *worker) bounded(hold time.Duration) time.Duration {
	if s := k.w.s; k.w.rec.now() < s.Clear() {
		return min(hold, max(0, s.End+4*s.T-k.w.rec.now()))
	}
	return hold
}

// returned writes down the answer to an acquisition and listens for its end.
func (w *world) returned(client, worker, id int, l *fencelock.Lease, err error) {
	e := Event{Kind: Returned, Client: client, Worker: worker, Acq: id, OK: l != nil, Err: err}
	if l == nil {
		w.rec.add(e)
		return
	}
	e.Token = l.Token()
	w.rec.add(e)
	ctx := l.Context()
	context.AfterFunc(ctx, func() {
		w.rec.add(Event{Kind: Notified, Client: client, Worker: worker, Acq: id, Err: context.Cause(ctx)})
	})
}

func (w *world) unlock(client, worker, id int, l *fencelock.Lease) {
	w.rec.add(Event{Kind: Unlocking, Client: client, Worker: worker, Acq: id})
	err := l.Unlock(context.Background())
	w.rec.add(Event{Kind: Unlocked, Client: client, Worker: worker, Acq: id, OK: err == nil, Err: err})
}

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
