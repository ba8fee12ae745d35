// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func newClient(t *testing.T) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestFromFindsTheLease(t *testing.T) {
	c := newClient(t)
	err := c.Do(t.Context(), "a", func(ctx context.Context, a *fencelock.Lease) error {
		return c.Do(ctx, "b", func(ctx context.Context, b *fencelock.Lease) error {
			for name, want := range map[string]*fencelock.Lease{"a": a, "b": b} {
				got, err := fence.FromContext(ctx, name)
				if err != nil || got != fence.Of(want) || got.Token != want.Token() || got.Holder != "ann" {
					t.Errorf("%q: got %v, %v, want %v", name, got, err, fence.Of(want))
				}
			}
			if got, err := fence.Innermost(ctx); err != nil || got != fence.Of(b) {
				t.Errorf("the innermost: got %v, %v, want %v", got, err, fence.Of(b))
			}
			for _, name := range []string{"c", ""} { // no name is not any name
				if _, err := fence.FromContext(ctx, name); !errors.Is(err, fence.ErrWrongLock) {
					t.Errorf("%q in a context with two other leases: got %v", name, err)
				}
			}
			return nil
		})
	})
	must.OK(t, err)
}

func TestFromFindsTheMark(t *testing.T) {
	c := newClient(t)
	err := c.Do(t.Context(), "a", func(ctx context.Context, a *fencelock.Lease) error {
		raised := fence.Mark{Lock: "a", Token: a.Token() + 1}
		ctx = fence.With(fence.With(ctx, raised), fence.Mark{Lock: "b", Token: 7})
		if got, err := fence.FromContext(ctx, "a"); err != nil || got != raised {
			t.Errorf("the mark must come before the lease: got %v, %v", got, err)
		}
		if got, err := fence.Innermost(ctx); err != nil || got.Lock != "b" {
			t.Errorf("the innermost mark: got %v, %v", got, err)
		}
		return nil
	})
	must.OK(t, err)
}

// TestTheInnermostCounts: a service serves a request that carries a mark, and
// takes the same lock itself while it does.
func TestTheInnermostCounts(t *testing.T) {
	c := newClient(t)
	request := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 1})
	err := c.Do(request, "a", func(ctx context.Context, a *fencelock.Lease) error {
		for what, from := range map[string]func() (fence.Mark, error){
			"FromContext": func() (fence.Mark, error) { return fence.FromContext(ctx, "a") },
			"Innermost":   func() (fence.Mark, error) { return fence.Innermost(ctx) },
		} {
			if got, err := from(); err != nil || got != fence.Of(a) {
				t.Errorf("%s: got %v, %v, want the lease that was taken since", what, got, err)
			}
		}
		return c.Do(fence.With(ctx, fence.Mark{Lock: "b", Token: 2}), "c", func(ctx context.Context, _ *fencelock.Lease) error {
			for lock, want := range map[string]fencelock.Token{"a": a.Token(), "b": 2} {
				if got, err := fence.FromContext(ctx, lock); err != nil || got.Token != want {
					t.Errorf("%s: got %v, %v, want %d", lock, got, err, want)
				}
			}
			if got, err := fence.Innermost(ctx); err != nil || got.Lock != "c" {
				t.Errorf("got %v, %v, want the lease that was taken last", got, err)
			}
			return nil
		})
	})
	must.OK(t, err)
}

func TestFromWithoutAToken(t *testing.T) {
	ctx := t.Context()
	if _, err := fence.FromContext(ctx, "a"); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("nothing there: got %v", err)
	}
	if _, err := fence.FromContext(fence.With(ctx, fence.Mark{Lock: "a"}), "a"); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("token zero: got %v", err)
	}
	if _, err := fence.FromContext(fence.With(ctx, fence.Mark{Lock: "b", Token: 9}), "a"); !errors.Is(err, fence.ErrWrongLock) {
		t.Errorf("another lock's: got %v", err)
	}
	if _, err := fence.Innermost(ctx); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("nothing there, of any lock: got %v", err)
	}
	if _, err := fence.Innermost(fence.With(ctx, fence.Mark{Lock: "a"})); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("token zero, of any lock: got %v", err)
	}
}
