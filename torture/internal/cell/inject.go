// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/fencelock/fencelock/torture/internal/history"
	"github.com/fencelock/fencelock/torture/internal/proxy"
	"github.com/fencelock/fencelock/torture/internal/server"
	"github.com/redis/go-redis/v9"
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
			return
		}
		all.Go(func() { r.step(ctx, s, fmt.Sprintf("%s #%d", s, i)) })
	}
	all.Wait()
}

// step does one fault and undoes it. What follows from it, a session that must
// expire first or a line that must be built again, may take two TTLs and the
// quiet time of the engine; what harms nothing but messages and scripts has no
// such excuse.
func (r *run) step(ctx context.Context, s fault.Step, text string) {
	after := r.c.TTL * time.Duration(2+r.c.Engine.Quiet)
	switch s.Verb {
	case fault.FlushScripts, fault.CutPush:
		after = 0
	}
	heal := func(err error) {
		if err != nil {
			text += ": " + err.Error()
		}
		now := history.Now()
		r.add(history.Event{At: now, Kind: history.Healed, Text: text, Until: now + int64(after)})
	}
	say := func(who string) { r.add(history.Event{At: history.Now(), Kind: history.Fault, Who: who, Text: text}) }
	switch {
	case strings.HasPrefix(s.Target, "server:"), s.Target == "master":
		say("")
		heal(r.harmServer(ctx, s))
	case s.Verb == fault.Stop, s.Verb == fault.Kill:
		slot := r.pick(s.Target)
		slot.mu.Lock()
		defer slot.mu.Unlock()
		say(slot.child.who)
		heal(r.harmClient(s, slot))
	default:
		slot := r.pick(s.Target)
		say("")
		for _, p := range slot.proxies {
			p.Set(proxy.State{
				Delay:        s.By,
				DropRequests: s.Verb == fault.Cut || s.Verb == fault.CutRequests,
				DropReplies:  s.Verb == fault.Cut || s.Verb == fault.CutReplies,
			})
		}
		time.Sleep(s.For)
		for _, p := range slot.proxies {
			p.Set(proxy.State{})
		}
		heal(nil)
	}
}

func (r *run) harmClient(s fault.Step, slot *slot) error {
	if s.Verb == fault.Stop {
		slot.child.signal(syscall.SIGSTOP)
		time.Sleep(s.For)
		slot.child.signal(syscall.SIGCONT)
		return nil
	}
	// Killed is noted when the process is gone, so that it did nothing after.
	slot.child.kill()
	r.add(history.Event{At: history.Now(), Kind: history.Killed, Who: slot.child.who})
	return r.startClient(slot)
}

// pick finds a client: by number, or who holds or waits now. If nobody holds
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
			if len(r.holding) > 0 && r.holding[s.child.who] == (target == "holder") {
				r.mu.Unlock()
				return s
			}
		}
		r.mu.Unlock()
	}
	return r.slots[r.rng.IntN(len(r.slots))]
}

func (r *run) harmServer(ctx context.Context, s fault.Step) error {
	i := 0
	if n, ok := strings.CutPrefix(s.Target, "server:"); ok {
		var err error
		if i, err = strconv.Atoi(n); err != nil || i >= len(r.rig.Servers) {
			return fmt.Errorf("there is no %s", s.Target)
		}
	} else if r.rig.Master != nil {
		var err error
		if i, err = r.rig.Master(); err != nil {
			return err
		}
	}
	srv := r.rig.Servers[i]
	switch s.Verb {
	case fault.Stop:
		if err := srv.Pause(); err != nil {
			return err
		}
		time.Sleep(s.For)
		return srv.Resume()
	case fault.Kill, fault.Wipe:
		srv.Kill()
		if s.Verb == fault.Wipe {
			if err := srv.Wipe(); err != nil {
				return err
			}
		}
		time.Sleep(s.For)
		return srv.Start()
	}
	return command(ctx, srv, s.Verb)
}

// command does to a server what is done by a command.
func command(ctx context.Context, srv *server.Redis, v fault.Verb) error {
	c := redis.NewClient(&redis.Options{Addr: srv.Addr, DisableIdentity: true})
	defer c.Close()
	switch v {
	case fault.Flush:
		return c.FlushAll(ctx).Err()
	case fault.FlushScripts:
		return c.ScriptFlush(ctx).Err()
	case fault.CutPush:
		return c.ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
	case fault.CutAll:
		if err := c.ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
			return err
		}
		return c.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err()
	}
	return fmt.Errorf("a server cannot be harmed by %q", v)
}
