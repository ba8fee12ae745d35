// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// await awaits with a context of ten seconds; a push comes after one second.
func (r *rig) await() (driver.Outcome, time.Duration, error) {
	push := make(chan struct{})
	r.fake.push = push
	time.AfterFunc(time.Second, func() { close(push) })
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	start := time.Now()
	o, err := r.session.Await(ctx, &driver.Claim{Seq: 1, Name: "a"})
	return o, time.Since(start), err
}

func TestAwaitIsNeverUnknown(t *testing.T) {
	for expr, injected := range map[string]Kind{
		"on(await, lose(reply))":      LostReply, // a lost push
		"on(await, lose(request))":    LostRequest,
		"on(await, delay(10s, 0s))":   Delayed,
		"on(await, delay(0s, 9s))":    Delayed,
		"on(await, cut(5s))":          CutOff,
		"on(await, pause(10s))":       Paused,
		"any(lose(reply), pause(2s))": LostReply,
	} {
		t.Run(expr, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, expr, nil)
				_, took, err := r.await()
				if err != context.DeadlineExceeded || took != 10*time.Second {
					t.Errorf("got %v after %s, want exactly the context's error after 10s", err, took)
				}
				r.wantInjected(injected, 1)
				r.store.Wait()
				r.wantInjected(Late, 0)
			})
		})
	}
}

func TestAwaitReturnsAPushLate(t *testing.T) {
	for expr, want := range map[string]time.Duration{
		"none":           time.Second,
		"dup":            time.Second,
		"delay(0s, 3s)":  4 * time.Second,
		"delay(3s, 0s)":  3 * time.Second,
		"pause(500ms)":   time.Second,
		"pause(2s)":      2 * time.Second,
		"lose(request)":  10 * time.Second,
		"any(dup, none)": time.Second,
	} {
		t.Run(expr, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, expr, nil)
				o, took, err := r.await()
				if took != want {
					t.Errorf("returned after %s, want %s", took, want)
				}
				if granted := o.State == driver.Granted; granted != (err == nil) {
					t.Errorf("got %v and %v", o.State, err)
				}
				dups := 0
				if strings.Contains(expr, "dup") {
					dups = 1
				}
				r.wantInjected(Duplicated, dups)
			})
		})
	}
}

func TestAPushDuringACutThatBeganMeanwhileIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "on(inspect, cut(2s))", nil)
		time.AfterFunc(500*time.Millisecond, func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			r.store.Inspect(ctx, "a") // it only starts the cut
		})
		_, took, err := r.await()
		if err != context.DeadlineExceeded || took != 10*time.Second {
			t.Errorf("got %v after %s", err, took)
		}
		r.wantInjected(CutOff, 2)
	})
}

func TestAPushDuringAPauseThatBeganMeanwhileComesAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauser := new(Pauser)
		r := newRig(t, "none", &Options{Pauser: pauser})
		time.AfterFunc(500*time.Millisecond, func() { pauser.Pause(2 * time.Second) })
		if o, took, err := r.await(); o.State != driver.Granted || err != nil || took != 2500*time.Millisecond {
			t.Errorf("got %v, %v after %s, want granted after 2.5s", o.State, err, took)
		}
		r.wantInjected(Paused, 1)
	})
}

func TestAPushIsNotReturnedWhenThePauseOutlastsTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauser := new(Pauser)
		r := newRig(t, "none", &Options{Pauser: pauser})
		time.AfterFunc(500*time.Millisecond, func() { pauser.Pause(time.Minute) })
		if _, took, err := r.await(); err != context.DeadlineExceeded || took != 10*time.Second {
			t.Errorf("got %v after %s, want the context's error after 10s", err, took)
		}
	})
}

func TestNoPushIsLostWhereNoneCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "lose(reply)", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.session.Await(ctx, &driver.Claim{Name: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.wantInjected(LostReply, 0)
	})
}
