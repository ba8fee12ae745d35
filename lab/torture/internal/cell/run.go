// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/rig"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/lossynet"
	"github.com/fencelock/fencelock/lab/torture/internal/resource"
)

// patience is how long the first grant of a cell may take.
const patience = 30 * time.Second

// run is a cell that is under way.
type run struct {
	c       Cell
	rig     *deployment.Rig
	res     *rig.Child
	resAddr string
	busy    []sync.Mutex      // one for each server, held while it is harmed
	network *lossynet.Network // nil if no step is about packets
	way     *servers.Proxy    // of the wire to the resource

	mu         sync.Mutex
	rng        *rand.Rand // steps run side by side
	events     []history.Event
	holding    map[string]bool
	idle       map[string]bool // those that have unlocked and not asked since
	slots      []*slot
	undone     []string // faults that could not be carried out, and why
	done       bool
	unreported error // why the resource did not report its lists
}

// unfit says why a fault does not apply to a deployment. What the machine lacks is
// another error: such a cell was not run.
type unfit string

func (u unfit) Error() string { return string(u) }

// Run runs a cell. An error of the suite itself makes it a cell that was not run.
func Run(ctx context.Context, c Cell) Result {
	c = c.withDefaults()
	began := time.Now()
	r := &run{c: c, holding: map[string]bool{}, idle: map[string]bool{}, rng: rand.New(rand.NewPCG(c.Seed, 3))}
	res, err := r.all(ctx)
	if err != nil {
		res = Result{Deployment: c.Deployment.Name, Fault: c.Fault.Name, Seed: c.Seed, Plan: r.c.Plan.String(), Status: NotRun, Reason: err.Error(), Events: r.events}
		var na unfit
		if errors.As(err, &na) {
			res.Status = NotApplicable
		}
	}
	res.Took = time.Since(began)
	if c.Lock != c.Deployment.Lock {
		res.Lock = c.Lock
	}
	res.Linger = c.Linger
	if c.Locks != 1 && !c.Linger {
		res.Locks = c.Locks
	}
	if c.Long != DefaultLong {
		res.Long = c.Long
	}
	return res
}

func (r *run) all(ctx context.Context) (Result, error) {
	var why string
	r.c.Plan, why = r.c.plan()
	if why != "" {
		return Result{}, unfit(why)
	}
	var err error
	r.rig, err = r.c.Deployment.Start(r.c.TTL, r.c.Plan.Wants())
	if err != nil {
		return Result{}, err
	}
	defer r.rig.Stop()
	r.busy = make([]sync.Mutex, len(r.rig.Servers))
	if r.c.Plan.Wants().Wire {
		if r.network, err = lossynet.New(r.c.Seed); err != nil {
			return Result{}, err
		}
		defer r.network.Close()
	}
	defer r.end()
	if err := r.begin(); err != nil {
		return Result{}, err
	}
	stall := watchStall()
	if err := r.await(ctx, 0, patience); err != nil {
		return Result{}, fmt.Errorf("before any fault: %w", err)
	}
	was, err := r.reign()
	if err != nil {
		return Result{}, err
	}
	r.inject(ctx)
	if len(r.c.Plan) == 0 {
		sleep(ctx, 3*r.c.TTL) // there is something to see in a calm cell too
	}
	stuck := r.recover(ctx)
	late := stall()
	now, err := r.reign()
	r.end()
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if err != nil {
		return Result{}, err
	}
	history.Sort(r.events)
	if len(r.undone) > 0 {
		stuck = nil // a client that could not be started again is not served either
	}
	res := judgeMoved(r.c, r.events, late, stuck, was, now)
	if r.unreported != nil && res.Status != Failed {
		res.Status, res.Reason = NotRun, "the resource did not report its lists at the end: "+r.unreported.Error()
	}
	if len(r.undone) > 0 && res.Status != Failed {
		res.Status, res.Reason = NotRun, "a fault did not happen: "+strings.Join(r.undone, "; ")
	}
	return res, nil
}

// recover waits until every client was granted the lock after the last fault, and
// then once more after the consequences of all faults are over. Only what comes
// after that shows whether wake-ups are lost (W), so it lasts for a TTL at least,
// for a grant to each client, and for a handoff if there is one in time.
func (r *run) recover(ctx context.Context) error {
	most := r.c.Limits().Starve + time.Second
	healed := history.Now()
	if err := r.await(ctx, healed, most); err != nil {
		return err
	}
	calm := r.excused()
	if calm > healed { // or nothing was excused, all of it was judged
		sleep(ctx, time.Duration(calm-history.Now())+r.c.TTL)
		if err := r.await(ctx, calm, most); err != nil {
			return err
		}
	}
	// With many locks it takes a while until two want the same.
	for deadline := time.Now().Add(most); !r.handedOff() && ctx.Err() == nil && time.Now().Before(deadline); {
		sleep(ctx, r.c.TTL/10)
	}
	return ctx.Err()
}

// handedOff reports whether there is something to judge wake-ups by.
func (r *run) handedOff() bool {
	r.mu.Lock()
	events := slices.Clone(r.events)
	r.mu.Unlock()
	history.Sort(events)
	return check.Handoffs(events) > 0
}

// excused is until when a fault explains a late wake-up.
func (r *run) excused() (until int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == history.Healed {
			until = max(until, e.Until)
		}
	}
	return until
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// begin starts the resource and the clients.
func (r *run) begin() error {
	port, err := servers.FreePort()
	if err != nil {
		return err
	}
	r.resAddr = fmt.Sprintf("127.0.0.1:%d", port)
	r.res, err = start(servers.Start, "resource", []string{"resource", r.resAddr, string(r.c.Guard)}, struct{}{}, r.add)
	if err != nil {
		return err
	}
	if err := reachable(r.resAddr); err != nil {
		return err
	}
	if r.network != nil {
		l, err := r.network.ListenResource()
		if err != nil {
			return err
		}
		r.way = servers.NewProxyAt(l, r.resAddr)
	}
	for i := range r.c.Clients {
		s := &slot{i: i}
		for _, addr := range r.rig.Reach {
			p, err := r.proxy(i, addr)
			if err != nil {
				return err
			}
			s.proxies = append(s.proxies, p)
		}
		r.slots = append(r.slots, s)
		if err := r.startClient(s); err != nil {
			return err
		}
	}
	return nil
}

// proxy makes the proxy of a client before an address.
func (r *run) proxy(client int, addr string) (*servers.Proxy, error) {
	if r.network == nil {
		return servers.NewProxy(addr)
	}
	l, err := r.network.Listen(client)
	if err != nil {
		return nil, err
	}
	return servers.NewProxyAt(l, addr), nil
}

func reachable(addr string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the resource does not answer: %w", err)
		}
	}
}

// add takes an event of any process.
func (r *run) add(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case history.Grant:
		r.holding[e.Who] = true
	case history.Release, history.Lost, history.Killed:
		delete(r.holding, e.Who)
	}
	switch e.Kind {
	case history.Released:
		r.idle[e.Who] = e.Idle
	case history.Ask, history.Killed:
		delete(r.idle, e.Who)
	}
	r.events = append(r.events, e)
}

// await waits until every client was granted the lock after an instant; if that
// is 0, until every client has asked for it and one was granted it.
func (r *run) await(ctx context.Context, after int64, most time.Duration) error {
	deadline := time.Now().Add(most)
	began := history.Now()
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		missing, latest := "", began
		for _, s := range r.slots {
			s.mu.Lock()
			latest = max(latest, s.granted.Load())
			if after == 0 && !s.asked.Load() || after > 0 && s.granted.Load() <= after {
				missing = s.child.Name
			}
			select {
			case <-s.child.Over():
				missing = fmt.Sprintf("client %s ended: %v", s.child.Name, s.child.Err())
			default:
			}
			s.mu.Unlock()
		}
		if missing == "" && (after > 0 || latest > began) {
			return nil
		}
		// If no client is served at all the checkers have seen enough before.
		idle := time.Duration(history.Now() - latest)
		if time.Now().After(deadline) || after > 0 && idle > r.c.Limits().Stuck+time.Second {
			return fmt.Errorf("not every client was granted the lock within %v: %s", most, missing)
		}
	}
	return ctx.Err()
}

// end stops the clients, then has the resource report its lists, and stops it.
func (r *run) end() {
	if r.done {
		return
	}
	r.done = true
	var all sync.WaitGroup
	for _, s := range r.slots {
		all.Go(func() {
			if s.child != nil {
				_ = s.child.Finish(r.c.TTL*3 + 5*time.Second)
			}
			for _, p := range s.proxies {
				p.Close()
			}
		})
	}
	all.Wait()
	if r.way != nil {
		r.way.Close()
	}
	if r.res != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r.unreported = (&resource.Client{Base: "http://" + r.resAddr}).Finish(ctx)
		_ = r.res.Finish(5 * time.Second)
	}
}

// watchStall watches for a machine that does not let us run; the function it
// returns ends that and says how late a timer was at most.
func watchStall() func() time.Duration {
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		const tick = 20 * time.Millisecond
		var most time.Duration
		for {
			last := time.Now()
			select {
			case <-stop:
				worst <- most
				return
			case <-time.After(tick):
				most = max(most, time.Since(last)-tick)
			}
		}
	}()
	return func() time.Duration { close(stop); return <-worst }
}
