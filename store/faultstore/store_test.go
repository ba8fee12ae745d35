// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// callAll makes one call of every operation and returns their errors.
func callAll(ctx context.Context, r *rig) map[Op]error {
	errs := make(map[Op]error)
	claim := &driver.Claim{Seq: 1, Name: "a"}
	_, _, errs[Open] = r.store.Open(ctx, driver.OpenRequest{Shard: "shard", TTL: time.Second})
	_, errs[KeepAlive] = r.session.KeepAlive(ctx)
	_, errs[Attempt] = r.session.Attempt(ctx, claim)
	_, errs[Await] = r.session.Await(ctx, claim)
	_, errs[Withdraw] = r.session.Withdraw(ctx, driver.Withdrawal{Seq: 1, Name: "a"})
	_, errs[Reclaim] = r.session.Reclaim(ctx, []driver.Held{{Claim: *claim}}, true)
	errs[Close] = r.session.Close(ctx)
	_, errs[Inspect] = r.store.Inspect(ctx, "a")
	_, errs[List] = r.store.List(ctx, driver.ListQuery{Max: 1})
	_, errs[Break] = r.store.Break(ctx, "a", driver.TokenStep)
	errs[SetLimit] = r.store.SetLimit(ctx, "a", 1)
	return errs
}

func TestEveryOperationIsBentAndNoOther(t *testing.T) {
	for _, op := range allOps {
		t.Run(string(op), func(t *testing.T) {
			r := newRig(t, On(op, Refuse()).String(), nil)
			r.fake.push = make(chan struct{})
			close(r.fake.push)
			for called, err := range callAll(t.Context(), r) {
				if refused := errors.Is(err, driver.ErrUnavailable); refused != (called == op) {
					t.Errorf("%s: %v", called, err)
				}
			}
			r.wantInjected(Refused, 1)
			if n := len(r.fake.executed()); n != len(allOps)-1 {
				t.Errorf("%d calls executed, want all but one of %d", n, len(allOps))
			}
		})
	}
}

func TestEveryOperationCanBeDuplicated(t *testing.T) {
	for _, op := range allOps {
		t.Run(string(op), func(t *testing.T) {
			r := newRig(t, On(op, Dup()).String(), nil)
			r.fake.push = make(chan struct{})
			close(r.fake.push)
			for called, err := range callAll(t.Context(), r) {
				if err != nil {
					t.Errorf("%s: %v", called, err)
				}
			}
			r.wantInjected(Duplicated, 1)
			times := 0
			for _, line := range r.fake.executed() {
				if strings.HasPrefix(line, string(op)+" ") {
					times++
				}
			}
			if n := len(r.fake.executed()); times != 2 || n != len(allOps)+1 {
				t.Errorf("%s was executed %d times, and all operations %d times; want 2 and %d", op, times, n, len(allOps)+1)
			}
		})
	}
}

func TestNameStrikesAllCallsAboutTheLock(t *testing.T) {
	r := newRig(t, `name("a", refuse)`, nil)
	for op, err := range callAll(t.Context(), r) {
		if refused := errors.Is(err, driver.ErrUnavailable); refused != (len(only(namedOps, []Op{op})) == 1) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestNothingIsSentOnceTheContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := newRig(t, "any(delay(1s, 1s), dup)", nil)
		for op, err := range callAll(ctx, r) {
			if !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrUnknown) {
				t.Errorf("%s: %v", op, err)
			}
		}
		r.wantExecuted()
		if got := r.store.Injected(); len(got) != 0 {
			t.Errorf("injected %v", got)
		}
	})
}

func TestSessionsOfAWrappedStoreAreBent(t *testing.T) {
	r := newRig(t, "on(close, dup)", nil)
	n, renewal, err := r.store.Open(t.Context(), driver.OpenRequest{Shard: "shard", TTL: time.Second})
	if err != nil || renewal.TTL != time.Second {
		t.Fatal(renewal, err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.wantInjected(Duplicated, 1)
}

func TestCapsPassThroughAndUnwrapReturnsTheStore(t *testing.T) {
	r := newRig(t, "refuse", nil)
	if got := r.store.Caps(); !reflect.DeepEqual(got, r.fake.Caps()) {
		t.Errorf("Caps %+v", got)
	}
	if r.store.Unwrap() != driver.Store(r.fake) {
		t.Error("Unwrap is another store")
	}
}

func TestWrapRefusesWhatCannotWork(t *testing.T) {
	for _, test := range []struct {
		fault Fault
		opts  *Options
		want  string
	}{
		{ResetAll(), nil, "reset(all) needs Options.Reset"},
		{On(Attempt, Any(Dup(), ResetSome())), nil, "reset(some) needs Options.Reset"},
		{Step(time.Second), &Options{Reset: func(bool) {}}, "step(+1s) needs Options.Step"},
		{On(Open, Name("a", Dup())), nil, `name("a", dup) can never strike: it only sees open`},
		{On(Open, On(Close, Dup())), nil, "on(close, dup) can never strike: it only sees open"},
		{On("atempt", Dup()), nil, `unknown operation "atempt"; want one of open, keepalive,`},
		{Nth(0, Dup()), nil, "in nth(0, dup): calls are counted from 1"},
		{After(-1, Dup()), nil, "want the number of calls to spare, not -1"},
		{Any(None(), Prob(1.5, 1, nil)), nil, "in prob(1.5, 1, none): want a probability from 0 to 1"},
		{For(0, Dup()), nil, "in for(0s, dup): want a time above 0s"},
		{Cut(0), nil, "in cut(0s): want a time above 0s"},
		{Delay(0, 0), nil, "not both 0s"},
		{None(), &Options{LateLimit: -1}, "LateLimit"},
	} {
		_, err := Wrap(newFake(), test.fault, test.opts)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.fault, err, test.want)
		}
	}
	if _, err := Wrap(nil, None(), nil); err == nil {
		t.Error("no error without a store")
	}
	for _, empty := range []Fault{nil, Any(), Any(nil), On(Open, nil)} {
		if _, err := Wrap(newFake(), empty, nil); err != nil {
			t.Errorf("%v strikes nothing, but: %v", empty, err)
		}
	}
}
