// SPDX-License-Identifier: Apache-2.0

// Package client is one client process: it locks, uses the resource, unlocks,
// and writes down what it did, until its standard input ends.
//
//	ask ─▶ grant ─▶ read both registers ─▶ work ─▶ check the context ─▶ … ─▶ write both ─▶ release
//	                                                        a gap, as in every program ┘
//
// The unfenced write is that of a careful program: it checks the context of
// the lease first and does not write if that has ended. Between the check and the
// write there is a gap, in which the process may be stopped. The fenced write is
// that of a careless program: it never checks. The guard has to stop it.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/fencelock/fencelock/lab/torture/internal/brokenlock"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/peer"
	"github.com/fencelock/fencelock/lab/torture/internal/resource"
)

// Config is all that a client process has to know; it is its first line of
// input.
type Config struct {
	Spec     lock.Spec `json:"spec"`
	Resource string    `json:"resource"`
	// Names are the locks to use.
	Names []string `json:"names"`
	Seed  uint64   `json:"seed"`
	// Home, if Spec.Linger is set, is the lock that the client uses mostly.
	Home int `json:"home"`
	// Long is how many sections there are for each that is longer than the TTL.
	Long int `json:"long"`
}

// Order is a later line of input.
type Order struct {
	// Crowd: ask for hundreds of other locks at once, for so long.
	Crowd time.Duration `json:"crowd"`
	// Break is the lock to take away from its holder.
	Break string `json:"break"`
}

// crowd is how many goroutines use the client at once: more than its pool of
// connections has.
const crowd = 300

// Main reads a Config, works until the input ends, and writes the history to out.
func Main(in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	var cfg Config
	if err := lines.Decode(&cfg); err != nil {
		return fmt.Errorf("a client is started by the suite, with its configuration as input: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w := &worker{cfg: cfg, rec: history.NewRecorder(out), rng: rand.New(rand.NewPCG(cfg.Seed, 1)),
		res: resource.Client{Base: cfg.Resource, Who: cfg.Spec.Who}}
	open := lock.Open
	switch {
	case strings.HasPrefix(cfg.Spec.Kind, brokenlock.Prefix):
		open = brokenlock.Open
	case strings.HasPrefix(cfg.Spec.Kind, peer.Prefix):
		open = peer.Open
	}
	var err error
	w.locks, err = open(cfg.Spec)
	if err != nil {
		return err
	}
	go func() {
		defer stop()
		for {
			var o Order
			if err := lines.Decode(&o); err != nil {
				return // the input is over, or broken: both end the work
			}
			switch g, ok := w.locks.(lock.Giver); {
			case o.Break == "":
				w.crowd(ctx, o.Crowd)
			case ok:
				go func() { _ = g.Break(ctx, o.Break) }() // an operator does not wait for it either
			}
		}
	}()
	w.rec.Add(history.Event{Kind: history.Start, Who: cfg.Spec.Who})
	for ctx.Err() == nil {
		w.turn(ctx)
	}
	w.rec.Add(history.Event{Kind: history.End, Who: cfg.Spec.Who})
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Spec.TTL)
	defer cancel()
	return w.locks.Close(ctx)
}

type worker struct {
	cfg   Config
	rec   *history.Recorder
	rng   *rand.Rand
	res   resource.Client
	locks lock.Locks
	turns int
}

// crowd asks for many locks at once, beside what is written down.
func (w *worker) crowd(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	for i := range crowd {
		go func() {
			for ctx.Err() == nil {
				held, err := w.locks.Lock(ctx, fmt.Sprintf("crowd-%d", i%(crowd/3)))
				if err != nil {
					pause(ctx, w.cfg.Spec.TTL/10)
					continue
				}
				_ = held.Unlock(context.WithoutCancel(ctx))
			}
		}()
	}
}

// turn is one acquisition and what is done under it.
func (w *worker) turn(ctx context.Context) {
	name, acquire := w.choose()
	e := history.Event{Who: w.cfg.Spec.Who, Lock: name}
	add := func(k history.Kind, change func(*history.Event)) {
		x := e
		x.Kind = k
		if change != nil {
			change(&x)
		}
		w.rec.Add(x)
	}
	add(history.Ask, nil)
	held, err := acquire(ctx, name)
	if err != nil {
		add(history.Miss, func(x *history.Event) { x.Text = err.Error() })
		pause(ctx, w.cfg.Spec.TTL/10)
		return
	}
	e.Token = held.Token()
	until := watch(held)
	add(history.Grant, func(x *history.Event) { x.Until = until.Load() })
	unwatch := context.AfterFunc(held.Context(), func() {
		add(history.Lost, func(x *history.Event) {
			x.Until, x.Text = until.Load(), fmt.Sprint(context.Cause(held.Context()))
		})
	})
	w.section(ctx, held, e, func() { add(history.Contended, nil) })
	add(history.Release, func(x *history.Event) { x.Until = until.Load() })
	unwatch()
	err = held.Unlock(context.WithoutCancel(ctx))
	add(history.Released, func(x *history.Event) {
		x.Idle = w.lingers()
		if err != nil {
			x.Text = err.Error()
		}
	})
	w.turns++
	pause(ctx, time.Duration(w.rng.Int64N(int64(w.cfg.Spec.TTL)/50)))
}

// lingers reports whether the locks of this workload stay with the client.
func (w *worker) lingers() bool { return w.cfg.Spec.Linger > 0 }

// visits is how many turns of a client with locks that linger there are for each that is
// about the lock of another client.
const visits = 12

// choose decides which lock to ask for, and how. A client whose locks linger has one that it
// uses mostly, and tries some of the others.
func (w *worker) choose() (string, func(context.Context, string) (lock.Held, error)) {
	if w.lingers() && w.rng.IntN(visits) > 0 {
		return w.cfg.Names[w.cfg.Home], w.locks.Lock
	}
	name := w.cfg.Names[w.rng.IntN(len(w.cfg.Names))]
	if g, ok := w.locks.(lock.Giver); ok && w.lingers() && w.rng.IntN(3) == 0 {
		return name, g.TryLock
	}
	return name, w.locks.Lock
}

// wanted returns what is closed when another client waits: a client whose locks linger
// gives way in every other section. It is nil for the others.
func (w *worker) wanted(held lock.Held) <-chan struct{} {
	if h, ok := held.(lock.Contended); ok && w.lingers() && w.rng.IntN(2) == 0 {
		return h.Contended()
	}
	return nil
}

// watch samples the deadline while it is held, because after the end of a lease
// what it was is unknown.
func watch(held lock.Held) *atomic.Int64 {
	var until atomic.Int64
	until.Store(history.Mono(trusted(held)))
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-held.Context().Done():
				return
			case <-tick.C:
				until.Store(max(until.Load(), history.Mono(trusted(held))))
			}
		}
	}()
	return &until
}

var errNoToken = errors.New("the lock has no tokens")

// trusted is the deadline, or for a lock that has none what its adapter makes of
// that.
func trusted(held lock.Held) time.Time {
	if t, ok := held.(interface{ Trusted() time.Time }); ok {
		return t.Trusted()
	}
	return held.Deadline()
}

// section is what is done while the lock is held: most are short, one in Config.Long
// is longer than the TTL.
func (w *worker) section(ctx context.Context, held lock.Held, e history.Event, gaveWay func()) {
	ttl := w.cfg.Spec.TTL
	work := time.Duration(w.rng.Int64N(int64(ttl / 40)))
	gap := time.Duration(w.rng.Int64N(int64(ttl / 40)))
	if w.rng.IntN(w.cfg.Long) == 0 {
		work, gap = ttl*2, ttl/5
	}
	// A resource without answer must not hold up a cell; it is on this machine.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	// Without a token there is nothing to show to a guard.
	fenced, errF := []string(nil), errNoToken
	if e.Token != 0 {
		fenced, errF = w.res.Read(ctx, history.Fenced, e.Lock, e.Token)
	}
	plain, errP := w.res.Read(ctx, history.Unfenced, e.Lock, 0)
	select {
	case <-time.After(work):
	case <-held.Context().Done(): // the lease is lost: why work on?
	case <-w.wanted(held):
		gaveWay()
	}
	careful := held.Context().Err() == nil && time.Now().Before(held.Deadline())
	time.Sleep(gap)
	value := fmt.Sprintf("%s.%d", e.Who, w.turns)
	switch {
	case errF == nil:
		w.append(ctx, history.Fenced, e, fenced, value)
	case e.Token != 0: // a section without a fenced write must not pass for one that had nothing to write
		x := e
		x.Kind, x.Register, x.Text = history.Unsure, history.Fenced, "read: "+errF.Error()
		if errors.Is(errF, fence.ErrStale) {
			x.Kind = history.Refused
		}
		w.rec.Add(x)
	}
	if errP == nil && careful {
		w.append(ctx, history.Unfenced, e, plain, value)
	}
}

func (w *worker) append(ctx context.Context, register string, e history.Event, read []string, value string) {
	e.Kind, e.Register, e.Value = history.Write, register, value
	w.rec.Add(e)
	err := w.res.Append(ctx, register, e.Lock, e.Token, read, value)
	switch {
	case err == nil:
		e.Kind = history.Wrote
	case errors.Is(err, fence.ErrStale), errors.Is(err, fence.ErrNoToken):
		e.Kind, e.Text = history.Refused, err.Error()
	default:
		e.Kind, e.Text = history.Unsure, err.Error()
	}
	w.rec.Add(e)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
