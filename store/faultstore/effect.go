// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"errors"
	"fmt"
	"time"
)

// ErrDefinite is what fail returns. It wraps none of the errors that package
// driver gives a meaning, so it is definite: the store did nothing, and trying
// again does not help.
var ErrDefinite = errors.New("definite error")

// LoseRequest returns lose(request): the call gets lost before the store.
func LoseRequest() Fault { return effect{kind: LostRequest} }

// LoseReply returns lose(reply): the call is executed, its reply gets lost.
func LoseReply() Fault { return effect{kind: LostReply} }

// Delay returns delay(before, after): the call waits before it is executed and
// its reply before it is delivered.
func Delay(before, after time.Duration) Fault {
	return effect{kind: Delayed, d: before, after: after}
}

// Dup returns dup: the call is executed twice.
func Dup() Fault { return effect{kind: Duplicated} }

// Refuse returns refuse: the call fails with driver.ErrUnavailable.
func Refuse() Fault { return effect{kind: Refused} }

// Fail returns fail: the call fails with ErrDefinite.
func Fail() Fault { return effect{kind: Failed} }

// ResetAll returns reset(all): the store loses all its data before the call.
func ResetAll() Fault { return effect{kind: LostAll} }

// ResetSome returns reset(some): the store loses its most recent changes before the
// call.
func ResetSome() Fault { return effect{kind: LostSome} }

// Step returns step(d): the store's clock jumps by d, forward or back, before
// the call.
func Step(d time.Duration) Fault { return effect{kind: Stepped, d: d} }

// Pause returns pause(d): the store stands still for d.
func Pause(d time.Duration) Fault { return effect{kind: Paused, d: d} }

// Cut returns cut(d): the connection of the wrapper is cut for d.
func Cut(d time.Duration) Fault { return effect{kind: CutOff, d: d} }

// effect is a leaf: what happens to the calls that get there.
type effect struct {
	kind     Kind
	d, after time.Duration
}

func (e effect) String() string {
	switch e.kind {
	case Delayed:
		return fmt.Sprintf("delay(%s, %s)", e.d, e.after)
	case Stepped:
		if e.d >= 0 {
			return fmt.Sprintf("step(+%s)", e.d)
		}
		return fmt.Sprintf("step(%s)", e.d)
	case Paused, CutOff:
		return fmt.Sprintf("%s(%s)", e.kind, e.d)
	}
	return string(e.kind)
}

func (e effect) valid() error {
	switch {
	case e.kind == Stepped && e.d == 0:
		return errors.New("a step of 0s changes nothing")
	case e.kind == Delayed && (e.d < 0 || e.after < 0 || e.d+e.after == 0):
		return fmt.Errorf("want two times from 0s on that are not both 0s, not %s and %s", e.d, e.after)
	case (e.kind == Paused || e.kind == CutOff) && e.d <= 0:
		return fmt.Errorf("want a time above 0s, not %s", e.d)
	}
	return nil
}

func (e effect) check(in scope) error {
	if err := e.valid(); err != nil {
		return fmt.Errorf("in %s: %w", e, err)
	}
	switch {
	case (e.kind == LostAll || e.kind == LostSome) && in.opts.Reset == nil:
		return fmt.Errorf("%s needs Options.Reset", e)
	case e.kind == Stepped && in.opts.Step == nil:
		return fmt.Errorf("%s needs Options.Step", e)
	}
	return nil
}

func (e effect) compile() matcher { return func(_ *call, p *plan) { p.add(e) } }

// plan is all that strikes one call, and what of it has struck so far.
type plan struct {
	cut, pause, before, after, step                                time.Duration
	loseRequest, loseReply, dup, refuse, fail, resetAll, resetSome bool

	struck []Kind
}

// add combines one more effect into the plan.
func (p *plan) add(e effect) {
	switch e.kind {
	case LostRequest:
		p.loseRequest = true
	case LostReply:
		p.loseReply = true
	case Delayed:
		p.before += e.d
		p.after += e.after
	case Duplicated:
		p.dup = true
	case Refused:
		p.refuse = true
	case Failed:
		p.fail = true
	case LostAll:
		p.resetAll = true
	case LostSome:
		p.resetSome = true
	case Stepped:
		p.step += e.d
	case Paused:
		p.pause = max(p.pause, e.d)
	case CutOff:
		p.cut = max(p.cut, e.d)
	}
}
