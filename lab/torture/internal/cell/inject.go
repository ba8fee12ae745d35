// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
	"github.com/fencelock/fencelock/lab/torture/internal/client"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/lossynet"
)

// inject carries out the plan and returns when everything is healed. Steps that
// overlap run side by side.
func (r *run) inject(ctx context.Context) {
	began := time.Now()
	var all sync.WaitGroup
	for i, s := range r.c.Plan {
		select {
		case <-time.After(time.Until(began.Add(s.At))):
		case <-ctx.Done():
			all.Wait() // no fault may hit what the end of the cell takes down
			return
		}
		all.Go(func() { r.step(ctx, s, fmt.Sprintf("%s #%d", s, i)) })
	}
	all.Wait()
}

// step does one fault and undoes it. What follows from it, a session that must
// expire first or a line that must be built again, may take two TTLs and the
// quiet time of the deployment; what harms nothing but messages and scripts has no
// such excuse.
func (r *run) step(ctx context.Context, s fault.Step, text string) {
	after := r.c.TTL * time.Duration(2+r.c.Deployment.Quiet)
	switch s.Verb {
	case fault.FlushScripts, fault.CutPush:
		after = 0
	}
	if s.Verb.OnWire() {
		after += s.For // TCP waits twice as long after each loss, so as long again after the last
	}
	heal := func(err error) {
		if err != nil && ctx.Err() == nil {
			r.mu.Lock()
			r.undone = append(r.undone, fmt.Sprintf("%s: %v", s, err))
			r.mu.Unlock()
		}
		now := history.Now()
		r.add(history.Event{At: now, Kind: history.Healed, Text: text, Until: now + int64(after)})
	}
	note := func(who string) { r.add(history.Event{At: history.Now(), Kind: history.Fault, Who: who, Text: text}) }
	switch {
	case strings.HasPrefix(s.Target, "server:"), s.Target == "master", s.Target == "pooler":
		note("")
		heal(r.harmServer(ctx, s))
	case s.Verb.OnWire():
		targets := r.slots
		if s.Target != "clients" {
			targets = []*slot{r.pick(s.Target)}
		}
		note("")
		heal(r.harmPackets(s, targets))
	case s.Verb == fault.Stop, s.Verb == fault.Kill:
		slot := r.pick(s.Target)
		slot.mu.Lock()
		defer slot.mu.Unlock()
		note(slot.child.Name)
		heal(r.harmClient(s, slot))
	case s.Verb == fault.Crowd, s.Verb == fault.Break:
		slot := r.pick(s.Target)
		note("")
		heal(r.order(s, slot))
	default:
		slot := r.pick(s.Target)
		note("")
		for _, p := range slot.proxies {
			p.Set(network(s))
		}
		time.Sleep(s.For)
		for _, p := range slot.proxies {
			p.Set(servers.State{})
		}
		heal(nil)
	}
}

// order makes a client do something beside its work.
func (r *run) order(s fault.Step, slot *slot) error {
	o := client.Order{Crowd: s.For}
	if s.Verb == fault.Break {
		r.mu.Lock()
		o.Break = lockName(r.rng.IntN(r.c.Locks))
		r.mu.Unlock()
	}
	slot.mu.Lock()
	err := slot.child.Send(o)
	slot.mu.Unlock()
	time.Sleep(s.For)
	return err
}

// network is the state of a network that a step makes.
func network(s fault.Step) servers.State {
	switch s.Verb {
	case fault.Cut, fault.Isolate:
		return servers.State{DropRequests: true, DropReplies: true}
	case fault.CutRequests, fault.Mute:
		return servers.State{DropRequests: true}
	case fault.CutReplies, fault.Deafen:
		return servers.State{DropReplies: true}
	case fault.Duplicate:
		return servers.State{Again: s.By, DropReplies: true}
	case fault.Repeat:
		return servers.State{Again: s.By}
	}
	return servers.State{Delay: s.By}
}

func (r *run) harmClient(s fault.Step, slot *slot) error {
	if s.Verb == fault.Stop {
		slot.child.Signal(syscall.SIGSTOP)
		time.Sleep(s.For)
		slot.child.Signal(syscall.SIGCONT)
		return nil
	}
	// Killed is noted when the process is gone, so that it did nothing after.
	slot.child.Kill()
	r.add(history.Event{At: history.Now(), Kind: history.Killed, Who: slot.child.Name})
	return r.startClient(slot)
}

// pick finds a client: by number, or who holds or waits now. If no client holds
// within half a TTL, chance decides.
func (r *run) pick(target string) *slot {
	if n, ok := strings.CutPrefix(target, "client:"); ok {
		if i, err := strconv.Atoi(n); err == nil && i < len(r.slots) {
			return r.slots[i]
		}
	}
	deadline := time.Now().Add(r.c.TTL / 2)
	for ; time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		r.mu.Lock()
		for _, s := range r.slots {
			if r.is(s.who.Load().(string), target) {
				r.mu.Unlock()
				return s
			}
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[r.rng.IntN(len(r.slots))]
}

// is reports whether a client is what a step is about; r.mu must be held.
func (r *run) is(who, target string) bool {
	if target == "idle" {
		return r.idle[who]
	}
	return len(r.holding) > 0 && r.holding[who] == (target == "holder")
}

func (r *run) harmServer(ctx context.Context, s fault.Step) error {
	i, err := r.find(s.Target)
	if err != nil {
		return err
	}
	srv := r.rig.Servers[i]
	// A restart may take longer than the plan thinks; the next step waits for it.
	r.busy[i].Lock()
	defer r.busy[i].Unlock()
	switch s.Verb {
	case fault.Stop:
		if err := srv.Pause(); err != nil {
			return err
		}
		time.Sleep(s.For)
		return srv.Resume()
	case fault.Kill, fault.Wipe:
		srv.Kill()
		if w, ok := srv.(server.Wiper); ok && s.Verb == fault.Wipe {
			if err := w.Wipe(); err != nil {
				return err
			}
		}
		time.Sleep(s.For)
		return errors.Join(r.replaced(ctx, s, i), srv.Start())
	case fault.Rollback:
		return rollback(srv, s.For)
	case fault.Failover:
		if err := r.rig.Failover(ctx); err != nil {
			return err
		}
		return r.replaced(ctx, s, i)
	case fault.Migrate:
		return r.rig.Migrate(ctx)
	case fault.Isolate, fault.Mute, fault.Deafen:
		r.rig.Peers.Set(i, network(s))
		time.Sleep(s.For)
		err := r.replaced(ctx, s, i)
		r.rig.Peers.Set(i, servers.State{})
		return err
	}
	return r.command(ctx, srv, s)
}

// rollback makes a server come back with the data it had a while ago.
func rollback(srv server.Server, ago time.Duration) error {
	x, ok := srv.(interface{ Snapshot() (func() error, error) })
	if !ok {
		return errors.New("this server has no copy of its data")
	}
	restore, err := x.Snapshot()
	if err != nil {
		return err
	}
	time.Sleep(ago)
	srv.Kill()
	if err := restore(); err != nil {
		return err
	}
	return srv.Start()
}

// find finds the server that a step is about.
func (r *run) find(target string) (int, error) {
	switch {
	case target == "pooler":
		return r.rig.Pooler, nil
	case target == "master" && r.rig.Master != nil:
		return r.rig.Master()
	case target == "master":
		return 0, nil
	}
	i, err := strconv.Atoi(strings.TrimPrefix(target, "server:"))
	if err != nil || i >= len(r.rig.Servers) {
		return 0, fmt.Errorf("there is no %s", target)
	}
	return i, nil
}

// sever ends the connections of all clients to a Redis server, and of other deployments
// all of them. What the servers have among themselves is not touched: a sentinel
// without its connections has another server take over.
func (r *run) sever(srv server.Server) {
	one, ok := srv.(*server.Redis)
	for _, slot := range r.slots {
		for i, p := range slot.proxies {
			if !ok || r.rig.Reach[i] == one.Addr {
				p.Cut()
			}
		}
	}
}

// command does to a server what is done by a command, by its clock or its disk.
func (r *run) command(ctx context.Context, srv server.Server, s fault.Step) error {
	switch x, ok := srv.(server.Clocked); {
	case ok && s.Verb == fault.Clock:
		return moveClock(ctx, srv, x.Clock(), s.By)
	case ok && s.Verb == fault.ClockBack:
		return moveClock(ctx, srv, x.Clock(), -s.By)
	case ok && s.Verb == fault.ClockRate:
		return runClock(ctx, srv, x.Clock(), s.Share, s.For)
	}
	if x, ok := srv.(server.Occupied); ok && s.Verb == fault.Busy {
		return x.Occupy(ctx, s.By, s.For)
	}
	if disk, ok := srv.(interface{ FillDisk() (func() error, error) }); ok && s.Verb == fault.FillDisk {
		empty, err := disk.FillDisk()
		if err != nil {
			return err
		}
		return errors.Join(refused(ctx, srv, s.For), empty())
	}
	if s.Verb == fault.CutAll {
		r.sever(srv)
		return nil
	}
	c, ok := srv.(server.Commander)
	if !ok {
		return fmt.Errorf("this server cannot be harmed by %q", s.Verb)
	}
	err := c.Do(ctx, s.Verb)
	if err == nil && s.Verb == fault.Fill {
		return errors.Join(refused(ctx, srv, s.For), c.Do(ctx, fault.Drain))
	}
	return err
}

// packets is the state of the network that a step makes.
func packets(s fault.Step) lossynet.State {
	switch s.Verb {
	case fault.Lose:
		return lossynet.State{Lose: s.Share}
	case fault.Corrupt:
		return lossynet.State{Corrupt: s.Share}
	case fault.Double:
		return lossynet.State{Twice: s.Share, By: s.By}
	case fault.Reorder:
		return lossynet.State{Late: s.Share, By: s.By}
	case fault.DropUp:
		return lossynet.State{NoRequests: true}
	case fault.DropDown:
		return lossynet.State{NoReplies: true}
	case fault.Flap:
		return lossynet.State{Flap: true, By: s.By}
	}
	return lossynet.State{Slow: true, By: s.By}
}

// harmPackets makes the wires of clients bad for a while. If not a single packet was touched
// the fault did not happen.
func (r *run) harmPackets(s fault.Step, targets []*slot) error {
	for _, t := range targets {
		r.network.Set(t.i, packets(s))
	}
	time.Sleep(s.For)
	touched := 0
	for _, t := range targets {
		touched += r.network.Set(t.i, lossynet.State{})
	}
	if touched == 0 {
		return errors.New("no packet was sent in that time that it could have harmed")
	}
	return nil
}
