// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// scene is one run of one case. It takes the place of a testing.T, so that a
// case can run without one.
type scene struct {
	ctx      context.Context
	of       Case
	h        *Harness
	lock     string
	old, new holder
	skipped  string
	failures []*Failure
}

// stop is what fatalf and skip panic with; unlike Goexit it leaves the caller alone.
type stop struct{}

// holder is one acquisition of the lock.
type holder struct {
	name  string
	lock  string
	token fencelock.Token
}

func (p holder) mark() fence.Mark { return fence.Mark{Lock: p.lock, Token: p.token, Holder: p.name} }

func (p holder) in(ctx context.Context) context.Context { return fence.With(ctx, p.mark()) }

func newScene(ctx context.Context, c Case, h *Harness) *scene {
	return &scene{ctx: ctx, of: c, h: h, old: holder{name: "old@fencetest", token: 512}, new: holder{name: "new@fencetest", token: 768}}
}

func (t *scene) play() {
	defer func() {
		switch r := recover(); r.(type) {
		case nil, stop:
		default:
			t.errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	t.of.body(t)
}

func (t *scene) errorf(format string, args ...any) {
	t.failures = append(t.failures, &Failure{Clause: t.of.Clause, Case: t.of.Name, Text: fmt.Sprintf(format, args...)})
}

func (t *scene) fatalf(format string, args ...any) {
	t.errorf(format, args...)
	panic(stop{})
}

// skip ends a case that cannot be run.
func (t *scene) skip(why string) {
	t.skipped = why
	panic(stop{})
}

// value returns a fresh value with its own lock. It must read empty.
func (t *scene) value() *Value { return t.valueOf("fencetest/" + rand.Text()[:8]) }

// valueOf is value with a given name of the lock.
func (t *scene) valueOf(lock string) *Value {
	t.lock = lock
	t.old.lock, t.new.lock = t.lock, t.lock
	v, err := t.h.New(t.ctx, t.lock)
	if err != nil {
		t.fatalf("no fresh value: %v", err)
	}
	t.reads(v, "")
	return v
}

// reads checks the value as it is.
func (t *scene) reads(v *Value, want string) {
	ctx, cancel := context.WithTimeout(t.ctx, t.h.soon())
	defer cancel()
	got, err := v.Read(ctx)
	if err != nil || got != want {
		t.fatalf("the value is %q (%v), want %q", got, err, want)
	}
}

// call is one call of a holder under way.
type call struct {
	by    holder
	what  string
	gate  *gate
	done  chan struct{}
	value string // what Enter read
	err   error
}

// start begins a call that stops before its at-th round trip, 0 for never.
func (t *scene) start(p holder, what string, at int, do func(ctx context.Context) (string, error)) *call {
	c := &call{by: p, what: what, gate: newGate(at), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(c.gate.with(p.in(t.ctx)), t.h.soon())
	go func() {
		defer close(c.done)
		defer cancel()
		defer func() {
			if r := recover(); r != nil {
				c.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		c.value, c.err = do(ctx)
	}()
	return c
}

func (t *scene) startEnter(v *Value, p holder, at int) *call {
	return t.start(p, "entering", at, v.Enter)
}

func (t *scene) startWrite(v *Value, p holder, value string, at int) *call {
	return t.start(p, "writing "+value, at, func(ctx context.Context) (string, error) { return "", v.Write(ctx, value) })
}

func (c *call) wait() *call { <-c.done; return c }

// enter raises the fence and reads; it must be admitted.
func (t *scene) enter(v *Value, p holder) string {
	c := t.startEnter(v, p, 0).wait()
	t.admitted(c)
	return c.value
}

func (t *scene) write(v *Value, p holder, value string) {
	t.admitted(t.startWrite(v, p, value, 0).wait())
}

func (t *scene) admitted(c *call) {
	if c.err != nil {
		t.fatalf("%s with token %d must be admitted: %v", c.what, c.by.token, c.err)
	}
}

// refused checks that a call was refused with that error.
func (t *scene) refused(c *call, want error) {
	switch {
	case c.err == nil:
		t.fatalf("%s with token %d was admitted, want %v", c.what, c.by.token, want)
	case !errors.Is(c.err, want):
		t.fatalf("%s with token %d: got the error %q, want %v", c.what, c.by.token, c.err, want)
	}
}

// Step reports that the call under ctx is about to make a round trip to the
// resource. A case may stop the caller here; outside of a case Step does
// nothing. Call it wherever another holder could come in between.
func Step(ctx context.Context) {
	if g, ok := ctx.Value(gateKey{}).(*gate); ok {
		g.step(ctx)
	}
}

// Lost reports that the reply to the call under ctx has just been lost: the resource
// is done with it, and the caller does not know yet. A case may let another holder
// in here; outside of a case Lost does nothing. Dialer calls it.
func Lost(ctx context.Context) {
	if overtake, ok := ctx.Value(lostKey{}).(func()); ok {
		overtake()
	}
}

type (
	gateKey struct{}
	lostKey struct{}
)

// gate counts the steps of one call and stops it before one of them.
type gate struct {
	at      int           // stop before this step, counted from 1; 0: never
	stopped chan struct{} // closed when the call has come there
	goOn    chan struct{} // closed to let it go on

	mu    sync.Mutex
	steps int
}

func newGate(at int) *gate {
	return &gate{at: at, stopped: make(chan struct{}), goOn: make(chan struct{})}
}

func (g *gate) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, gateKey{}, g)
}

func (g *gate) step(ctx context.Context) {
	g.mu.Lock()
	g.steps++
	here := g.steps == g.at
	g.mu.Unlock()
	if !here {
		return
	}
	close(g.stopped)
	select {
	case <-g.goOn:
	case <-ctx.Done():
	}
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.steps
}

// Trips returns how many round trips f makes with the context it is given.
// Subtract what the same work needs without the guard.
func Trips(ctx context.Context, f func(ctx context.Context) error) (int, error) {
	g := newGate(0)
	err := f(g.with(ctx))
	return g.count(), err
}
