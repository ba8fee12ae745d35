// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func TestALostRequestIsNotExecutedAndUnknownAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "lose(request)", nil)
		_, took, err := r.attempt("a", 2*time.Second)
		wantUnknownAfter(t, err, took, 2*time.Second)
		r.wantExecuted()
		r.wantInjected(LostRequest, 1)
	})
}

func TestALostReplyIsExecutedAndUnknownAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "lose(reply)", nil)
		o, took, err := r.attempt("a", 2*time.Second)
		wantUnknownAfter(t, err, took, 2*time.Second)
		if o.State != driver.Absent || o.Token != 0 {
			t.Errorf("a lost reply returned %+v", o)
		}
		r.wantExecuted("attempt a@0s")
		r.wantInjected(LostReply, 1)
	})
}

func TestADelayWaitsBeforeExecutionAndBeforeTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "delay(1s, 3s)", nil)
		o, took, err := r.attempt("a", time.Minute)
		if err != nil || o.State != driver.Granted || took != 4*time.Second {
			t.Errorf("got %v, %v after %s, want granted after 4s", o.State, err, took)
		}
		r.wantExecuted("attempt a@1s")
		r.wantInjected(Delayed, 1)
		r.wantInjected(Late, 0)
	})
}

func TestADelayedCallLandsLateWhenItsCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "any(delay(5s, 0s), dup)", nil)
		_, took, err := r.attempt("a", 2*time.Second)
		wantUnknownAfter(t, err, took, 2*time.Second)
		r.wantExecuted()
		r.store.Wait()
		r.wantExecuted("attempt a@5s", "attempt a@5s")
		r.wantInjected(Delayed, 1)
		r.wantInjected(Late, 1)
	})
}

func TestALateCallUsesTheArgumentsOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "delay(5s, 0s)", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := &driver.Claim{Seq: 1, Name: "a"}
		if _, err := r.session.Attempt(ctx, c); !errors.Is(err, driver.ErrUnknown) {
			t.Fatal(err)
		}
		c.Name = "changed by the caller"
		r.store.Wait()
		r.wantExecuted("attempt a@5s")
	})
}

func TestALateCallNeverLandsBehindItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "delay(5s, 0s)", &Options{LateLimit: 3 * time.Second})
		start := time.Now()
		_, took, err := r.attempt("a", time.Second)
		wantUnknownAfter(t, err, took, time.Second)
		r.store.Wait()
		if waited := time.Since(start); waited != 4*time.Second {
			t.Errorf("Wait returned at %s, want 4s", waited)
		}
		r.wantExecuted()
		r.wantInjected(Late, 0)
	})
}

func TestADelayedReplyIsUnknownWhenTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "delay(0s, 2s)", nil)
		// At the same instant the context wins, in every run.
		_, took, err := r.attempt("a", 2*time.Second)
		wantUnknownAfter(t, err, took, 2*time.Second)
		r.wantExecuted("attempt a@0s")
		r.wantInjected(Late, 0)
	})
}

func TestADelayedCallLandsLateWhenItsCallerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "delay(5s, 0s)", nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := r.session.Withdraw(ctx, driver.Withdrawal{Seq: 1, Name: "a"})
		if !errors.Is(err, driver.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want one that wraps ErrUnknown and Canceled", err)
		}
		r.store.Wait()
		r.wantExecuted("withdraw a@5s")
	})
}

func TestDupExecutesTwiceAndReturnsTheSecondReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "dup", nil)
		o, took, err := r.attempt("a", time.Second)
		if err != nil || o.Token != 2*driver.TokenStep || took != 0 {
			t.Errorf("got %+v, %v after %s, want the second reply at once", o, err, took)
		}
		r.wantExecuted("attempt a@0s", "attempt a@0s")
		r.wantInjected(Duplicated, 1)
	})
}

func TestRefuseIsUnavailableAtOnceAndNotExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "refuse", nil)
		_, took, err := r.attempt("a", time.Second)
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknown) || took != 0 {
			t.Errorf("got %v after %s, want ErrUnavailable at once", err, took)
		}
		r.wantExecuted()
		r.wantInjected(Refused, 1)
	})
}

func TestFailIsDefiniteAtOnceAndNotExecuted(t *testing.T) {
	for _, op := range allOps {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, On(op, Fail()).String(), nil)
				r.fake.push = make(chan struct{})
				close(r.fake.push)
				err := callAll(t.Context(), r)[op]
				if !errors.Is(err, ErrDefinite) {
					t.Fatalf("got %v, want ErrDefinite", err)
				}
				for _, meaning := range []error{driver.ErrUnknown, driver.ErrUnavailable, driver.ErrGone, driver.ErrReset,
					driver.ErrNotHeld, driver.ErrUnsupported, driver.ErrRefused, context.Canceled, context.DeadlineExceeded} {
					if errors.Is(err, meaning) {
						t.Errorf("%v is %v, so it is not definite", err, meaning)
					}
				}
				r.wantInjected(Failed, 1)
				if n := len(r.fake.executed()); n != len(allOps)-1 {
					t.Errorf("%d calls executed, want all but one of %d", n, len(allOps))
				}
			})
		})
	}
}

func TestOneOperationFailsForAWholeTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "on(reclaim, for(15s, fail))", nil)
		time.Sleep(time.Hour) // the time counts from the first reclaim
		began := time.Now()
		for i := range 20 {
			_, err := r.session.Reclaim(t.Context(), nil, true)
			if failed := errors.Is(err, ErrDefinite); failed != (i < 15) {
				t.Errorf("reclaim after %s: %v", time.Since(began), err)
			}
			if _, _, err := r.attempt("a", time.Second); err != nil {
				t.Errorf("attempt after %s: %v", time.Since(began), err)
			}
			time.Sleep(time.Second)
		}
		r.wantInjected(Failed, 15)
	})
}

func TestHooksRunBeforeTheCall(t *testing.T) {
	for expr, want := range map[string][]string{
		"reset(all)":                      {"reset true after 0"},
		"reset(some)":                     {"reset false after 0"},
		"any(reset(some), reset(all))":    {"reset true after 0"},
		"step(+5s)":                       {"step 5s after 0"},
		"any(step(-1s), step(+5s), none)": {"step 4s after 0"},
		"any(reset(all), step(-1s))":      {"step -1s after 0", "reset true after 0"},
		"any(reset(all), lose(request))":  nil,
		"any(step(+1s), cut(1s), refuse)": nil,
		"any(reset(some), on(open, dup))": {"reset false after 0"},
	} {
		t.Run(expr, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testHooks(t, expr, want) })
		})
	}
}

func testHooks(t *testing.T, expr string, want []string) {
	var got []string
	var r *rig
	note := func(s string) {
		if n := len(r.fake.executed()); n != 0 {
			t.Errorf("%s after %d executions", s, n)
		}
		got = append(got, s+" after 0")
	}
	r = newRig(t, expr, &Options{
		Reset: func(all bool) {
			if all {
				note("reset true")
			} else {
				note("reset false")
			}
		},
		Step: func(d time.Duration) { note("step " + d.String()) },
	})
	_, _, err := r.attempt("a", time.Second)
	if (err == nil) != (want != nil) {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("hooks %q, want %q", got, want)
	}
}

func TestAPauseHoldsUpAllCallsOfTheWrappersThatShareIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(Pauser)
		r := newRig(t, "nth(1, pause(3s))", &Options{Pauser: shared})
		other := newRig(t, "none", &Options{Pauser: shared})
		alone := newRig(t, "none", nil)
		go r.attempt("a", time.Minute)
		synctest.Wait()
		time.Sleep(time.Second)
		if _, took, err := r.attempt("b", time.Minute); err != nil || took != 2*time.Second {
			t.Errorf("the same wrapper: %v after %s, want 2s", err, took)
		}
		synctest.Wait() // or the next pause may catch the first attempt, too
		shared.Pause(2 * time.Second)
		if _, took, err := other.attempt("c", time.Minute); err != nil || took != 2*time.Second {
			t.Errorf("one that shares the pause: %v after %s, want 2s", err, took)
		}
		shared.Pause(2 * time.Second)
		if _, took, err := alone.attempt("d", time.Minute); err != nil || took != 0 {
			t.Errorf("one that does not: %v after %s, want at once", err, took)
		}
		got := r.fake.executed()
		slices.Sort(got)
		if want := []string{"attempt a@3s", "attempt b@3s"}; !slices.Equal(got, want) {
			t.Errorf("executed %q, want %q", got, want)
		}
		r.wantInjected(Paused, 2)
		other.wantInjected(Paused, 1)
	})
}

func TestACallThatOutlivesItsCallerInAPauseLandsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "nth(1, pause(3s))", nil)
		_, took, err := r.attempt("a", time.Second)
		wantUnknownAfter(t, err, took, time.Second)
		r.store.Wait()
		r.wantExecuted("attempt a@3s")
		r.wantInjected(Late, 1)
		r.wantInjected(Paused, 1)
	})
}

func TestACutSwallowsRequestsAndRepliesOfThisWrapperOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, `any(name("slow", delay(0s, 2s)), name("cutter", cut(3s)))`, nil)
		other, err := Wrap(r.fake, None(), nil)
		must.OK(t, err)
		slow := make(chan error, 1)
		go func() {
			_, _, err := r.attempt("slow", 10*time.Second)
			slow <- err
		}()
		synctest.Wait()
		_, took, err := r.attempt("cutter", time.Second)
		wantUnknownAfter(t, err, took, time.Second)
		_, took, err = r.attempt("during", time.Second)
		wantUnknownAfter(t, err, took, time.Second)
		if _, err := other.Inspect(t.Context(), "elsewhere"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if _, _, err := r.attempt("healed", time.Second); err != nil {
			t.Errorf("after the cut: %v", err)
		}
		wantUnknownAfter(t, <-slow, 0, 0)
		r.wantExecuted("attempt slow@0s", "inspect elsewhere@2s", "attempt healed@3s")
		r.wantInjected(CutOff, 3)
	})
}
