// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/testhook"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// world is a schedule while it runs: one store, many processes. It lives inside
// a synctest bubble.
type world struct {
	s     *Schedule
	store *memstore.Store
	rec   *recorder
	line  *arrivals
	procs []*process
	cover *Coverage

	resources map[string]*resource
	bench     bench
	pauser    faultstore.Pauser

	mu       sync.Mutex
	snapshot *memstore.Snapshot
	copied   int // the place in the history where it was taken
}

// process is one client with its own network to the store.
type process struct {
	w       *world
	index   int
	plan    ClientPlan
	net     *faultstore.Store
	pulse   pulse
	machine *machine
	client  *fencelock.Client
	alive   context.Context // ends when the process dies or is closed
	stop    context.CancelFunc
	dead    atomic.Bool
	lost    sync.Map       // the sessions that the client lost
	aside   sync.WaitGroup // what workers do beside their work
}

// forever is longer than any schedule.
const forever = 1000 * time.Hour

// Run runs a schedule and returns what happened. It must be called inside a
// synctest bubble. The error is about the schedule itself: an invalid fault
// expression.
func Run(s *Schedule, cover *Coverage) (*History, error) {
	rec := newRecorder(s)
	w := &world{s: s, rec: rec, line: newArrivals(rec.place), cover: cover, resources: map[string]*resource{}}
	opts := s.Store
	start := time.Now()
	opts.Now = func() time.Time { return start.Add(time.Duration(float64(time.Since(start)) * s.Rate)) }
	w.store = memstore.New(&opts)
	for _, n := range s.Names {
		w.resources[n.Name] = &resource{}
	}
	w.resources[leaderName] = &resource{}
	for i := range s.Clients {
		p, err := w.process(i)
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		w.procs = append(w.procs, p)
	}
	w.live()
	synctest.Wait() // what is withdrawn in the background is gone then
	w.quiet()
	w.finish()
	synctest.Wait() // for goroutines that still have to write something down
	w.empty()
	w.rec.h.Claims = w.line.list()
	cover.count(w)
	return w.rec.h, nil
}

// process makes one client. The faults end with the storm; only death lasts.
func (w *world) process(i int) (*process, error) {
	p := &process{w: w, index: i, plan: w.s.Clients[i], machine: newMachine()}
	p.alive, p.stop = context.WithCancel(context.Background())
	expr, err := faultstore.Parse(p.plan.Fault)
	if err != nil {
		return nil, err
	}
	fault := faultstore.During(0, w.s.End, expr)
	if p.plan.Kill > 0 {
		fault = faultstore.Any(fault, faultstore.During(p.plan.Kill, forever, faultstore.Cut(forever)))
	}
	p.net, err = faultstore.Wrap(&tap{Store: w.store, client: i, line: w.line, closing: w.closing, notices: newNotices(w, i)}, fault, &faultstore.Options{
		Reset: w.reset, Step: w.step, Pauser: &w.pauser,
	})
	if err != nil {
		return nil, err
	}
	client, err := testhook.NewClient(&meter{p.net, p}, &fencelock.Options{
		TTL: p.plan.TTL, LocalHandoff: p.plan.LocalHandoff,
		Owner: fmt.Sprintf("c%d", i), Hooks: w.hooks(p),
	}, p.machine.clock())
	if err != nil {
		return nil, err
	}
	p.client = client.(*fencelock.Client)
	return p, nil
}

// reset and step are what faults do to the store.
func (w *world) reset(all bool) {
	if all {
		w.happen(StoreEvent{Kind: LostData})
	} else {
		w.happen(StoreEvent{Kind: Restored})
	}
}

func (w *world) step(d time.Duration) { w.happen(StoreEvent{Kind: Stepped, Step: d}) }

// happen does something to the store. It is written down before, so that no
// consequence can precede it.
func (w *world) happen(e StoreEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var back []leaseID
	if e.Kind == Restored {
		back = w.copiedGrantsLocked()
	}
	w.rec.add(Event{Kind: e.Kind, D: e.Step, Since: w.copied, Back: back})
	w.line.reborn()
	switch e.Kind {
	case LostData:
		w.store.Reset()
	case Restored:
		w.store.Restore(w.snapshot)
	case Restarted:
		w.store.Restart()
	case Stepped:
		w.store.StepClock(e.Step)
	}
}

// copiedGrantsLocked returns the grants that the older data has. w.mu must be held.
func (w *world) copiedGrantsLocked() (grants []leaseID) {
	for _, g := range testhook.MemstoreGrants(w.snapshot) {
		grants = append(grants, leaseID{w.line.owner(g.Session), g.Name, g.Token})
	}
	return grants
}

// closing makes a call that ends a session or a claim and returns its place in the history.
// Nothing happens to the store in between.
func (w *world) closing(call func() error) (place int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec.place(), call()
}

// live runs the workers and, at the same time, the events of the store and the processes.
func (w *world) live() {
	ctx, cancel := context.WithCancel(context.Background())
	var events, workers sync.WaitGroup
	events.Go(func() { w.snapshots(ctx) })
	for _, e := range w.s.Events {
		w.at(&events, ctx, e.At, func() { w.happen(e) })
	}
	for _, a := range w.s.Acts {
		w.at(&events, ctx, a.At, func() { w.act(a) })
	}
	w.at(&events, ctx, w.s.Clear(), func() { w.rec.add(Event{Kind: Cleared}) })
	for _, p := range w.procs {
		if p.plan.Kill > 0 {
			w.at(&events, ctx, p.plan.Kill, p.kill)
		}
		if p.plan.Close > 0 {
			w.at(&events, ctx, p.plan.Close, func() { p.close(p.plan.TTL); p.stop() })
		}
		for _, x := range p.plan.Suspends {
			w.at(&events, ctx, x.At, func() { p.suspend(x.For) })
		}
		if w.s.Election {
			c := newCandidate(p)
			observes := c.r.IntN(2) == 0 // drawn before run: from then on the generator is its own
			workers.Go(c.run)
			if observes {
				w.at(&events, p.alive, 0, func() {
					seen, cancel := context.WithTimeout(p.alive, w.s.Clear())
					defer cancel()
					c.observe(seen)
				})
			}
		}
		for i := range p.plan.Workers {
			workers.Go(newWorker(p, i).run)
		}
	}
	workers.Wait()
	for _, p := range w.procs {
		p.aside.Wait()
	}
	time.Sleep(w.s.Clear() + w.s.T/8 - w.rec.now()) // all processes may have died early
	cancel()
	events.Wait()
}

// at does something at a time of the schedule.
func (w *world) at(wg *sync.WaitGroup, ctx context.Context, when time.Duration, do func()) {
	wg.Go(func() {
		if sleep(ctx, when-w.rec.now()) {
			do()
		}
	})
}

// snapshots takes a copy of the store's memory now and then, for Restored.
func (w *world) snapshots(ctx context.Context) {
	for sleep(ctx, w.s.T/3) && w.rec.now() < w.s.End {
		copied := w.rec.place()
		snap := w.store.Snapshot()
		w.mu.Lock()
		w.snapshot, w.copied = snap, copied
		w.mu.Unlock()
	}
}

// kill lets the process die: its network has just been cut forever.
func (p *process) kill() {
	p.dead.Store(true)
	p.w.rec.add(Event{Kind: Killed, Client: p.index})
	p.stop()
}

// close closes the client in good order.
func (p *process) close(patience time.Duration) {
	p.machine.wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.w.rec.add(Event{Kind: Closing, Client: p.index})
	err := p.client.Close(ctx)
	p.w.rec.add(Event{Kind: Closed, Client: p.index, OK: err == nil, Err: err, N: p.claims()})
}

// claims writes down and counts what the store has of the client's sessions that were not lost.
func (p *process) claims() (n int) {
	for _, s := range testhook.MemstoreRemains(p.w.store).Sessions {
		if _, lost := p.lost.Load(s.ID); p.w.line.owner(s.ID) == p.index && !lost {
			for _, seq := range s.Claims {
				p.w.rec.add(Event{Kind: Remained, Client: p.index, Session: s.ID, N: 1,
					Since: p.w.line.withdrawnAt(driver.ClaimID{Session: s.ID, Seq: seq})})
			}
			n += len(s.Claims)
		}
	}
	return n
}

// finish checks that all is free, and leaves nothing behind.
func (w *world) finish() {
	w.fresh()
	var wg sync.WaitGroup
	for _, p := range w.procs {
		wg.Go(func() {
			// Long enough for calls into the void to give up.
			p.close(10 * w.s.T)
			p.stop()
			p.net.Wait()
		})
	}
	wg.Wait()
	for _, p := range w.procs {
		n := 0
		for _, c := range p.net.Injected() {
			n += c
		}
		w.rec.h.Struck = append(w.rec.h.Struck, n)
		w.rec.h.Spun = append(w.rec.h.Spun, p.pulse.spun())
	}
}

// fresh lets a new process try every lock: no client holds one now.
func (w *world) fresh() {
	client, err := fencelock.New(w.store, &fencelock.Options{TTL: w.s.T, Owner: "fresh"})
	if err != nil {
		w.rec.h.Stuck = errors.Join(errors.New("no fresh client"), err)
		return
	}
	me, names := len(w.procs), slices.Clone(w.s.Names)
	if w.s.Election {
		names = append(names, Name{Name: leaderName})
	}
	for i := range w.s.Hoard {
		names = append(names, hoardName(i))
	}
	for _, n := range names {
		o := op{name: n, mode: exclusiveOf(n), weight: max(1, n.Limit), try: true}
		id := w.rec.call(o.event(me, 0, 0))
		l, err := o.acquire(context.Background(), client)
		w.returned(me, 0, id, l, err)
		if l != nil {
			w.unlock(me, 0, id, l)
		}
	}
	// Its own goroutines must end, too; the bubble reports it if they do not.
	_ = client.Close(context.Background())
}

// sleep waits, and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

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
