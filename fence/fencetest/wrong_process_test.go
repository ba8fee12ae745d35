// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
)

// writeDoesNotRaise checks and writes in one step and leaves the fence as it was.
func writeDoesNotRaise(m *memory, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		given, err := fence.FromContext(ctx, m.lock)
		if err != nil {
			return err
		}
		fencetest.Step(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := fence.Check(m.kept, given); err != nil {
			return err
		}
		m.value = value
		return nil
	}
}

// withoutStep is checkThenWrite with a harness that announces no round trip, so
// that no case can stop it between the check and the write.
func withoutStep(m *memory, v *fencetest.Value) {
	checkThenWrite(m, v)
	enter, write := v.Enter, v.Write
	silent := func(ctx context.Context) context.Context {
		given, err := fence.Innermost(ctx)
		if err != nil {
			return context.Background()
		}
		return fence.With(context.Background(), given)
	}
	v.Enter = func(ctx context.Context) (string, error) { return enter(silent(ctx)) }
	v.Write = func(ctx context.Context, value string) error { return write(silent(ctx), value) }
}

// TestHarnessWithoutStepIsReported: the report names the function to call.
func TestHarnessWithoutStepIsReported(t *testing.T) {
	report, err := fencetest.Check(t.Context(), harness("no Step", withoutStep))
	if err == nil || !strings.Contains(err.Error(), "must call fencetest.Step before every round trip") {
		t.Errorf("got %v, %v", report, err)
	}
	for _, name := range []string{"G3/entry-in-steps", "G4/write-in-steps", "G4/late-entry-in-steps", "G10/two-processes-write-in-steps"} {
		fencetest.Refuses(t, harness("no Step", withoutStep), name)
	}
}

// cutNames compares the first 32 bytes of names, as a column of that width does.
func cutNames(m *memory, v *fencetest.Value) {
	cut := func(s string) string { return s[:min(len(s), 32)] }
	with := func(ctx context.Context) context.Context {
		if mark, err := fence.Innermost(ctx); err == nil && cut(mark.Lock) == cut(m.lock) {
			mark.Lock = m.lock
			return fence.With(ctx, mark)
		}
		return ctx
	}
	v.Enter = func(ctx context.Context) (string, error) { return m.Enter(with(ctx)) }
	v.Write = func(ctx context.Context, value string) error { return m.Write(with(ctx), value) }
}

// fenceInProcess shares the value and keeps the fence for itself.
func fenceInProcess(m *memory, v *fencetest.Value) {
	own := &memory{lock: m.lock, resource: &resource{}}
	v.Enter = func(ctx context.Context) (value string, err error) {
		err = own.raise(ctx, func() { value, err = m.Read(ctx) })
		return value, err
	}
	v.Write = func(ctx context.Context, value string) error {
		return own.raise(ctx, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.value = value
		})
	}
}

// inProcessMutex makes one step of a wrong guard's round trips inside one process.
// The cases that use one guard for both holders cannot see what is wrong with it.
func inProcessMutex(change func(*memory, *fencetest.Value)) func(*memory, *fencetest.Value) {
	return func(m *memory, v *fencetest.Value) {
		change(m, v)
		enter, write := v.Enter, v.Write
		mu := make(chan struct{}, 1)
		v.Enter = func(ctx context.Context) (string, error) {
			mu <- struct{}{}
			defer func() { <-mu }()
			return enter(ctx)
		}
		v.Write = func(ctx context.Context, value string) error {
			mu <- struct{}{}
			defer func() { <-mu }()
			return write(ctx, value)
		}
	}
}

// TestMutexOfAProcessHidesTheGap: this is why the cases of G10 repeat those of
// G3 and G4 with two guards.
func TestMutexOfAProcessHidesTheGap(t *testing.T) {
	h := harness("mutex of a process", inProcessMutex(checkThenWrite))
	for _, c := range fencetest.Cases() {
		if c.Name == "G4/write-in-steps" {
			if r := c.Check(t.Context(), h); len(r.Failures) > 0 {
				t.Errorf("one guard for both holders: %v", r.Failures)
			}
		}
	}
}

// TestFencesOfCutNamesAreRefused: values of different locks share a fence if the
// names begin alike.
func TestFencesOfCutNamesAreRefused(t *testing.T) {
	var mu sync.Mutex
	fences := map[string]*resource{}
	h := harness("table of fences with names cut to 64 bytes", right)
	h.New = func(_ context.Context, lock string) (*fencetest.Value, error) {
		mu.Lock()
		defer mu.Unlock()
		short := lock[:min(len(lock), 64)]
		if fences[short] == nil {
			fences[short] = &resource{}
		}
		shared := fences[short]
		return (&resource{}).open(lock, func(m *memory, v *fencetest.Value) {
			guard := func(ctx context.Context, work func()) error {
				given, err := fence.FromContext(ctx, lock)
				if err != nil {
					return err
				}
				fencetest.Step(ctx)
				given.Lock = short
				shared.mu.Lock()
				defer shared.mu.Unlock()
				if err := fence.Check(shared.kept, given); err != nil {
					return err
				}
				shared.kept = given
				work()
				return nil
			}
			v.Enter = func(ctx context.Context) (value string, err error) {
				err = guard(ctx, func() { value, _ = m.Read(ctx) })
				return value, err
			}
			v.Write = func(ctx context.Context, value string) error {
				return guard(ctx, func() {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.value = value
				})
			}
		}), nil
	}
	fencetest.Refuses(t, h, "G5/similar-names-apart")
}
