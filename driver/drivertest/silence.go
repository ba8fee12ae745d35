// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// silenceCases are about a server that does not answer.
var silenceCases = []spec{
	{"X4", "silent server", all(sever), x4SilentServer},
	{"X4", "silent server and a canceled call", all(sever), x4Canceled},
	{"X4", "silent server while waiting", all(sever, queue), x4WhileWaiting},
	{"X4", "silent server on closing", all(sever), x4OnClosing},
	{"X4", "healed", all(sever), x4Healed},
	{"X4", "context ends", nil, x4ContextEnds},
}

// patience bounds a call to a server that does not answer. It is short, so that
// the sessions outlive a case in which nothing can keep them alive.
func (t *scene) patience() time.Duration { return t.short / 40 }

// severed cuts the server off while f runs.
func (t *scene) severed(f func()) {
	heal := t.h.Sever()
	defer heal()
	f()
}

// impatiently does a call with little patience, and returns its error.
func (t *scene) impatiently(c call) (err error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.patience())
	defer cancel()
	t.within(t.patience()+t.soon, c.what, func() { err = c.do(ctx) })
	return err
}

func x4SilentServer(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	calls := t.calls(w)
	t.severed(func() {
		for _, c := range calls {
			// A plain error would mean that the store certainly did nothing and
			// that trying again will not help; neither is known.
			if err := t.unanswered(c); !notSure(err) {
				t.errorf("%s without an answer: got error %v, want ErrUnknown or ErrUnavailable", c.what, err)
			}
		}
	})
}

// x4Canceled: a connection can be given a deadline, but a cancellation must be watched
// for. Whether the call left anything undone is the matter of the case above.
func x4Canceled(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	calls := t.calls(w)
	t.severed(func() {
		for _, c := range calls {
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.ctx))
			timer := time.AfterFunc(t.patience(), cancel)
			t.within(t.patience()+t.soon, c.what, func() {
				if err := c.do(ctx); err == nil {
					t.errorf("%s without an answer succeeded", c.what)
				}
			})
			timer.Stop()
			cancel()
		}
	})
}

// unanswered does a call that gets no answer. On a machine that stalls, its context
// can end before it begins, which is no answer to the question: then it tries again.
func (t *scene) unanswered(c call) (err error) {
	for range 5 {
		err = t.impatiently(c)
		if notSure(err) || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return err
}

// notSure reports whether an error leaves open what was done, or that trying again may
// help.
func notSure(err error) bool {
	return errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable)
}

func x4WhileWaiting(t *scene) {
	name := t.name("lock")
	t.open(name).grant(name)
	w := t.open(name).queue(name)
	t.severed(func() {
		// Whether a wait notices the silence is not the matter; its end is.
		_ = t.impatiently(call{"Await", func(ctx context.Context) error {
			out, err := w.s.d.Await(ctx, &w.claim)
			if out.State == driver.Granted {
				t.errorf("Await answered granted without an answer of the server")
			}
			return err
		}})
	})
}

func x4OnClosing(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	a.grant(name)
	t.severed(func() {
		if err := t.impatiently(call{"Close", a.d.Close}); err == nil {
			t.errorf("Close succeeded without an answer of the server")
		}
	})
	a.close()
	t.open(name).grant(name)
}

func x4Healed(t *scene) {
	name := t.name("lock")
	a := t.open(name)
	found, removed := a.want(name), a.want(name)
	attempt := func(w *request) {
		t.severed(func() {
			_ = t.impatiently(call{"Attempt", func(ctx context.Context) error {
				_, err := a.d.Attempt(ctx, &w.claim)
				return err
			}})
		})
	}
	attempt(found)
	found.granted()
	// Of both, an attempt may still be on its way, in a pooler for one: without a tombstone it would
	// take the lock again after the withdrawal (see driver.Withdrawal).
	found.compareFound(found.remove(driver.Withdrawal{Tombstone: true}), driver.WasGranted)
	attempt(removed)
	removed.remove(driver.Withdrawal{Tombstone: true})
	t.mustBeFree(name)
	t.open(name).grant(name)
}

func x4ContextEnds(t *scene) {
	name := t.name("lock")
	w := t.open(name).grant(name)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for _, c := range t.calls(w) {
		t.within(t.soon, c.what, func() {
			if err := c.do(ctx); err == nil {
				t.errorf("%s with an ended context succeeded", c.what)
			}
		})
	}
}
