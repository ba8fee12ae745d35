// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// travel takes one call along the way drawn in the package comment. exec is
// the wrapped call; it may run twice, and after travel has returned.
func travel[T any](ctx context.Context, s *Store, c *call, exec func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, notSent(c, err)
	}
	p := s.decide(c)
	if err := s.depart(ctx, c, p); err != nil {
		return none, err
	}
	at := time.Now().Add(p.before)
	if err := s.arrive(ctx, p, at); err != nil {
		if c.op != Await { // which would change nothing
			goOn(ctx, s, p, at, exec)
		}
		return none, unknown(c, "delayed", err)
	}
	reply, err := execute(ctx, s, p, exec)
	if lost := s.bring(ctx, c, p); lost != nil {
		return none, lost
	}
	return reply, err
}

// depart is the way to where the network would have taken the call over.
func (s *Store) depart(ctx context.Context, c *call, p *plan) error {
	if p.cut > 0 {
		s.cut(p.cut)
	}
	switch {
	case s.isCut():
		s.strike(p, CutOff)
		return blackHole(ctx, c, "request cut off")
	case p.refuse:
		s.strike(p, Refused)
		return fmt.Errorf("faultstore: %s: refused: %w", c, driver.ErrUnavailable)
	case p.fail:
		s.strike(p, Failed)
		return fmt.Errorf("faultstore: %s: %w", c, ErrDefinite)
	case p.loseRequest:
		s.strike(p, LostRequest)
		return blackHole(ctx, c, "request lost")
	}
	return nil
}

// arrive returns when the store takes the call, or with the context's error.
// It may then be called once more with another context.
func (s *Store) arrive(ctx context.Context, p *plan, at time.Time) error {
	if p.before > 0 {
		s.strike(p, Delayed)
	}
	if err := sleepUntil(ctx, at); err != nil {
		return err
	}
	if p.pause > 0 {
		s.pauser.Pause(p.pause)
		p.pause = 0 // so that a call that goes on late does not pause again
	}
	return s.standStill(ctx, p)
}

// standStill waits until the store is not paused.
func (s *Store) standStill(ctx context.Context, p *plan) error {
	held, err := s.pauser.wait(ctx)
	if held {
		s.strike(p, Paused)
	}
	return err
}

// goOn executes a call whose caller has gone. The context keeps its values but not
// its deadline; Options.LateLimit keeps a test from hanging.
func goOn[T any](
	ctx context.Context, s *Store, p *plan, at time.Time, exec func(context.Context) (T, error),
) {
	s.late.run(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.lateLimit)
		defer cancel()
		if s.arrive(ctx, p, at) != nil {
			return // too late even for a late call
		}
		// No caller is there to take the reply, nor the error.
		_, _ = execute(ctx, s, p, exec)
		s.strike(p, Late)
	})
}

// execute is what happens in the store.
func execute[T any](ctx context.Context, s *Store, p *plan, exec func(context.Context) (T, error)) (T, error) {
	if p.step != 0 {
		s.strike(p, Stepped)
		s.opts.Step(p.step)
	}
	switch {
	case p.resetAll:
		s.strike(p, LostAll)
		s.opts.Reset(true)
	case p.resetSome:
		s.strike(p, LostSome)
		s.opts.Reset(false)
	}
	reply, err := exec(ctx)
	if p.dup && ctx.Err() == nil {
		s.strike(p, Duplicated)
		reply, err = exec(ctx)
	}
	return reply, err
}

// bring is the reply's way back; it returns an error if it does not get there.
func (s *Store) bring(ctx context.Context, c *call, p *plan) error {
	if c.op == Await {
		// Alone among the calls an Await may have been under way when the
		// pause began, and a store that stands still pushes nothing.
		if err := s.standStill(ctx, p); err != nil {
			return unknown(c, "paused", err)
		}
	}
	if p.loseReply {
		s.strikeReply(ctx, p, LostReply)
		return blackHole(ctx, c, "reply lost")
	}
	if p.after > 0 {
		s.strikeReply(ctx, p, Delayed)
		if err := sleepUntil(ctx, time.Now().Add(p.after)); err != nil {
			return unknown(c, "reply delayed", err)
		}
	}
	if s.isCut() {
		s.strikeReply(ctx, p, CutOff)
		return blackHole(ctx, c, "reply cut off")
	}
	return nil
}

// strikeReply counts an effect on a reply. Once the context has ended no caller
// waits for one, so none is lost: an Await that nothing was pushed to.
func (s *Store) strikeReply(ctx context.Context, p *plan, k Kind) {
	if ctx.Err() == nil {
		s.strike(p, k)
	}
}

// blackHole returns when the context ends and not earlier.
func blackHole(ctx context.Context, c *call, why string) error {
	<-ctx.Done()
	return unknown(c, why, ctx.Err())
}

// notSent is what a caller gets whose context had ended before the call: it
// certainly did nothing.
func notSent(c *call, ended error) error {
	if c.op == Await {
		return ended
	}
	return fmt.Errorf("faultstore: %s: not sent: %w", c, ended)
}

// unknown is what a caller gets whose context ended before a reply came. It
// wraps the context's error, as every call must.
func unknown(c *call, why string, ended error) error {
	if c.op == Await {
		return ended
	}
	return fmt.Errorf("faultstore: %s: %s: %w: %w", c, why, driver.ErrUnknown, ended)
}

// lateCalls are the calls that go on without their callers. It is not a
// sync.WaitGroup because a late call may begin while another goroutine waits.
type lateCalls struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when running falls to 0
}

// run runs f in the background.
func (l *lateCalls) run(f func()) {
	l.mu.Lock()
	if l.running == 0 {
		l.idle = make(chan struct{})
	}
	l.running++
	l.mu.Unlock()
	go func() {
		defer l.done()
		f()
	}()
}

func (l *lateCalls) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.running == 0 {
		close(l.idle)
	}
}

// wait returns when no call is under way.
func (l *lateCalls) wait() {
	l.mu.Lock()
	running, idle := l.running, l.idle
	l.mu.Unlock()
	if running > 0 {
		<-idle
	}
}
