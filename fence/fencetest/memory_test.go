// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
)

// memory is a value with a fence, in one process. Right is the reference guard;
// the wrong ones change one thing each.
type memory struct {
	lock string
	*resource
}

// resource is what all processes share.
type resource struct {
	mu    sync.Mutex
	value string
	kept  fence.Mark
}

// open returns the guard as another process has it: change makes it again.
func (r *resource) open(lock string, change func(m *memory, v *fencetest.Value)) *fencetest.Value {
	m := &memory{lock: lock, resource: r}
	v := &fencetest.Value{Enter: m.Enter, Write: m.Write, Read: m.Read, LoseReply: m.LoseReply}
	v.Reopen = func(context.Context) (*fencetest.Value, error) { return r.open(lock, change), nil }
	change(m, v)
	return v
}

var errLost = errors.New("the connection broke")

// raise checks and keeps a mark, and then does what was admitted, in one step.
func (m *memory) raise(ctx context.Context, admitted func()) error {
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
	m.kept = given
	admitted()
	return nil
}

func (m *memory) Enter(ctx context.Context) (value string, err error) {
	err = m.raise(ctx, func() { value = m.value })
	return value, err
}

func (m *memory) Write(ctx context.Context, value string) error {
	return m.raise(ctx, func() { m.value = value })
}

func (m *memory) Read(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value, nil
}

func (m *memory) LoseReply(ctx context.Context, value string) error {
	if err := m.Write(ctx, value); err != nil {
		return err
	}
	fencetest.Lost(ctx)
	return errLost
}

// harness makes values whose functions change may replace.
func harness(name string, change func(m *memory, v *fencetest.Value)) *fencetest.Harness {
	return &fencetest.Harness{Name: name,
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			return (&resource{}).open(lock, change), nil
		},
		Restart: func(context.Context) error { return nil },
	}
}

func right(*memory, *fencetest.Value) {}

func TestReferenceGuard(t *testing.T) { fencetest.Run(t, harness("memory", right)) }

func TestCheckWithoutATest(t *testing.T) {
	report, err := fencetest.Check(t.Context(), harness("memory", right))
	if passed, failed, skipped := report.Counts(); err != nil || passed != len(fencetest.Cases()) || failed != 0 || skipped != 0 {
		t.Errorf("the right guard: %v, %v", report, err)
	}
	if text := report.String(); !strings.Contains(text, "fencetest: proved memory: ") {
		t.Errorf("the right guard: %s", text)
	}
	h := harness("bare", func(m *memory, v *fencetest.Value) { v.Enter = m.Read })
	h.Restart = nil
	report, err = fencetest.Check(t.Context(), h)
	var f *fencetest.Failure
	if _, failed, skipped := report.Counts(); !errors.As(err, &f) || failed == 0 || skipped != 1 || !strings.Contains(report.String(), "NOT PROVED") {
		t.Errorf("a wrong guard without Restart: %v, %v", report, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err = fencetest.Check(ended, h); !errors.Is(err, context.Canceled) || len(report.Results) != 0 {
		t.Errorf("a context that has ended: %v, %v", report, err)
	}
}

// TestWhatIsNotRunIsNotProved: a harness without LoseReply, Restart and
// Reopen proves nothing about three clauses, and the report names them.
func TestWhatIsNotRunIsNotProved(t *testing.T) {
	h := harness("poor", func(_ *memory, v *fencetest.Value) { v.LoseReply, v.Reopen = nil, nil })
	h.Restart = nil
	report, err := fencetest.Check(t.Context(), h)
	if _, failed, skipped := report.Counts(); err != nil || failed != 0 || skipped != 7 {
		t.Errorf("got %v, %v", report, err)
	}
	text := report.String()
	for _, want := range []string{"PARTLY PROVED poor: ", "7 skipped (G7, G9, G10)", "G7/lost-reply: needs Value.LoseReply", "G9/restart: needs Harness.Restart", "G10/two-processes: needs Value.Reopen"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
}

// TestLossWithoutLost: no holder can overtake such a harness.
func TestLossWithoutLost(t *testing.T) {
	report, err := fencetest.Check(t.Context(), harness("silent", func(m *memory, v *fencetest.Value) {
		v.LoseReply = func(ctx context.Context, value string) error { return errors.Join(m.Write(ctx, value), errLost) }
	}))
	if _, _, skipped := report.Counts(); err != nil || skipped != 1 || !strings.Contains(report.String(), "needs Value.LoseReply to call Lost") {
		t.Errorf("got %v, %v", report, err)
	}
}

func TestTrips(t *testing.T) {
	m := &memory{lock: "a", resource: &resource{}}
	n, err := fencetest.Trips(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 1}), func(ctx context.Context) error {
		_, err := m.Enter(ctx)
		return errors.Join(err, m.Write(ctx, "x"))
	})
	if n != 2 || err != nil {
		t.Errorf("got %d, %v, want one round trip for Enter and one for Write", n, err)
	}
}
