// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"strings"

	"github.com/fencelock/fencelock/fence"
)

// markCases are about what comes with the number.
var markCases = []spec{
	{"G5", "wrong-lock", nothing, wrongLock},
	{"G5", "no-token", nothing, noToken},
	{"G8", "names", nothing, names},
}

// The other lock's token is far above and must not count: the holder of the
// right lock is admitted afterwards with its lower one.
func wrongLock(t *scene) {
	for _, other := range []func(lock string) string{
		func(string) string { return "fence/fencetest/other" },
		func(lock string) string { return lock + " " },
		func(lock string) string { return lock[:len(lock)-1] },
		strings.ToUpper,
	} {
		v, stranger := t.value(), t.new
		stranger.lock, stranger.token = other(t.lock), t.new.token+1_000_000
		t.refused(t.startEnter(v, stranger, 0).wait(), fence.ErrWrongLock)
		t.refused(t.startWrite(v, stranger, "strange", 0).wait(), fence.ErrWrongLock)
		t.reads(v, "")
		t.enter(v, t.old)
		t.write(v, t.old, "a")
		t.refused(t.startWrite(v, stranger, "strange", 0).wait(), fence.ErrWrongLock)
		t.write(v, t.old, "b")
		t.reads(v, "b")
	}
}

func noToken(t *scene) {
	v := t.value()
	bare := func(do func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.ctx, t.h.soon())
		defer cancel()
		if err := do(ctx); !errors.Is(err, fence.ErrNoToken) {
			t.fatalf("without a token: got the error %v, want %v", err, fence.ErrNoToken)
		}
	}
	for _, before := range []string{"", "a"} {
		bare(func(ctx context.Context) error { _, err := v.Enter(ctx); return err })
		bare(func(ctx context.Context) error { return v.Write(ctx, "bare") })
		t.reads(v, before)
		t.enter(v, t.old)
		t.write(v, t.old, "a")
	}
}

func names(t *scene) {
	v := t.value()
	t.enter(v, t.old)
	t.enter(v, t.new)
	for _, c := range []*call{t.startWrite(v, t.old, "old", 0).wait(), t.startEnter(v, t.old, 0).wait()} {
		t.refused(c, fence.ErrStale)
		var stale *fence.StaleError
		if !errors.As(c.err, &stale) {
			t.fatalf("%s: %q is no *fence.StaleError", c.what, c.err)
		}
		if stale.Given.Token != t.old.token || stale.Given.Lock != t.lock {
			t.errorf("%s: the error has the refused mark %v, it was %v", c.what, stale.Given, t.old.mark())
		}
		if n := stale.Newer; n.Token != 0 && n.Token != t.new.token || n.Holder != "" && n.Holder != t.new.name {
			t.errorf("%s: the error has the newer mark %v, it is %v", c.what, n, t.new.mark())
		}
	}
}
