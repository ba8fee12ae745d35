// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// scene is one run of one case: its names, its sessions, its clock and what went
// wrong. It takes the place of a testing.T, so that a case can run without one.
type scene struct {
	ctx    context.Context
	of     Case
	h      *Harness
	store  driver.Store
	caps   driver.Caps
	prefix string
	// short and long are what sessions ask for, slack and soon as in Harness.
	short, long, slack, soon time.Duration

	began time.Time

	mu       sync.Mutex
	elapsed  time.Duration // what elapse was asked for
	failures []*Failure
	cleanups []func()
}

// stop is what fatalf panics with. A panic, and not Goexit, lets play go on in
// the same goroutine, which a synctest bubble and the caller of Check need.
type stop struct{}

func newScene(ctx context.Context, c Case, h *Harness, store driver.Store, stretch float64) *scene {
	var unique [6]byte
	rand.Read(unique[:])
	t := &scene{
		ctx: ctx, of: c, h: h, store: store, caps: store.Caps(),
		prefix: or(h.Prefix, defaultPrefix) + hex.EncodeToString(unique[:]) + "/",
		soon:   h.soon(),
		began:  time.Now(),
	}
	t.short, t.long = h.ttls(t.caps, stretch)
	t.slack = t.short / 4
	if h.Slack > 0 {
		plain, _ := h.ttls(t.caps, 1)
		t.slack = time.Duration(float64(h.Slack) * float64(t.short) / float64(plain))
	}
	return t
}

// play runs the case and then its cleanups, last first.
func (t *scene) play() {
	t.guarded(func() {
		if t.caps.Grace {
			// The server may be young, or the case before made it a new
			// incarnation. A store begins with its first session.
			name := t.name("before")
			t.visit(name)
			t.passGrace(name)
		}
		t.of.body(t)
	})
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.guarded(t.cleanups[i])
	}
}

// guarded runs f and turns a panic into a failure, so that one broken method of
// a store does not hide what the other cases find.
func (t *scene) guarded(f func()) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil, stop:
		default:
			t.fail(fmt.Sprintf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	f()
}

// cleanup runs f after the case, whatever came of it.
func (t *scene) cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// errorf records a violation and goes on.
func (t *scene) errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }

// fatalf records a violation and ends the case, or the goroutine of together.
func (t *scene) fatalf(format string, args ...any) {
	t.fail(fmt.Sprintf(format, args...))
	panic(stop{})
}

func (t *scene) fail(text string) {
	f := t.of.failure(t.caseLine(), text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, f)
}

// caseLine returns the line of the case that is under way, and after it the line
// of the helper beside the cases that found the failure, if there is one. The
// toolkit's own lines say nothing about a store and are left out.
func (t *scene) caseLine() string {
	body := runtime.FuncForPC(reflect.ValueOf(t.of.body).Pointer()).Name()
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	helper := ""
	for {
		f, more := frames.Next()
		base := filepath.Base(f.File)
		line := fmt.Sprintf("%s:%d", base, f.Line)
		switch {
		case f.Function == body || strings.HasPrefix(f.Function, body+".func"):
			if helper != "" {
				line += " by way of " + helper
			}
			return line
		case helper == "" && strings.HasPrefix(f.Function, modulePath) && base != "scene.go" && base != "request.go":
			helper = line
		}
		if !more {
			return helper
		}
	}
}

const modulePath = "github.com/fencelock/fencelock/driver/drivertest"

// bounded returns a context for one call: a store that hangs fails its case and
// not the whole run.
func (t *scene) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, t.soon)
}

// name returns a lock name that no other case and no other run uses.
func (t *scene) name(suffix string) string { return t.prefix + suffix }

// neighbors returns n names on one shard.
func (t *scene) neighbors(n int) []string {
	names := []string{t.name("n0")}
	shard := t.store.Shard(names[0])
	for i := 1; len(names) < n; i++ {
		if i > 1_000_000 {
			t.fatalf("found no %d names on shard %q in a million", n, shard)
		}
		if name := t.name(fmt.Sprint("n", i)); t.store.Shard(name) == shard {
			names = append(names, name)
		}
	}
	return names
}

// other returns the second store value, the one of another process.
func (t *scene) other() driver.Store {
	s, err := t.h.store(1)
	if err != nil {
		t.fatalf("opening the store a second time: %v", err)
	}
	return s
}

// elapse lets the store's clock advance.
func (t *scene) elapse(d time.Duration) {
	t.mu.Lock()
	t.elapsed += max(d, 0)
	t.mu.Unlock()
	switch {
	case d <= 0:
	case t.h.Elapse != nil:
		t.h.Elapse(d)
	default:
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.ctx.Done():
			t.fatalf("the check was stopped: %v", context.Cause(t.ctx))
		}
	}
}

// behind returns by how much the case took longer than the time it let pass on purpose:
// what its calls took, and what the machine held it up.
func (t *scene) behind() time.Duration { return time.Since(t.began) - t.elapsed }

// elapseKeeping lets the store's clock advance and keeps sessions alive.
func (t *scene) elapseKeeping(d time.Duration, sessions ...*session) {
	step := d
	for _, s := range sessions {
		step = min(step, s.ttl/3)
	}
	for d > 0 {
		t.elapse(min(step, d))
		d -= step
		for _, s := range sessions {
			s.keepAlive()
		}
	}
}

// together runs f n times at once and waits for all of them.
func (t *scene) together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { t.guarded(func() { f(i) }) })
	}
	wg.Wait()
	t.mu.Lock()
	failed := len(t.failures) > 0
	t.mu.Unlock()
	if failed {
		panic(stop{})
	}
}

// within runs f and fails if it has not returned after d.
func (t *scene) within(d time.Duration, what string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.guarded(f)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.fatalf("%s has not returned after %v", what, d)
	}
}

// inspect returns the status of a lock.
func (t *scene) inspect(name string) driver.Status {
	ctx, cancel := t.bounded()
	defer cancel()
	st, err := t.store.Inspect(ctx, name)
	if err != nil {
		t.fatalf("Inspect(%q): %v", name, err)
	}
	if st.Name != name {
		t.fatalf("Inspect(%q) answered for %q", name, st.Name)
	}
	return st
}

// setLimit stores a limit, and removes it after the case.
func (t *scene) setLimit(name string, limit int64) {
	ctx, cancel := t.bounded()
	defer cancel()
	if err := t.store.SetLimit(ctx, name, limit); err != nil {
		t.fatalf("SetLimit(%q, %d): %v", name, limit, err)
	}
	if limit == 0 {
		return
	}
	t.cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), t.soon)
		defer cancel()
		_ = t.store.SetLimit(ctx, name, 0)
	})
}

// breakGrant breaks the grant with that token.
func (t *scene) breakGrant(name string, token driver.Token) driver.Token {
	ctx, cancel := t.bounded()
	defer cancel()
	fence, err := t.store.Break(ctx, name, token)
	if err != nil {
		t.fatalf("Break(%q, %v): %v", name, token, err)
	}
	return fence
}

// reset makes the server lose its data.
func (t *scene) reset() { t.must("Reset", t.h.Reset) }

// restart makes the server a new incarnation with its data intact.
func (t *scene) restart() { t.must("Restart", t.h.Restart) }

// checkpoint notes the server's data and returns what goes back to it.
func (t *scene) checkpoint() (rewind func()) {
	f := t.h.Checkpoint()
	return func() { t.must("Checkpoint's rewind", f) }
}

func (t *scene) must(what string, f func() error) {
	if err := f(); err != nil {
		t.fatalf("Harness.%s: %v", what, err)
	}
}

// visit opens a session on name's shard and closes it. Errors are for the case to find.
func (t *scene) visit(name string) {
	ctx, cancel := t.bounded()
	defer cancel()
	d, _, err := t.store.Open(ctx, driver.OpenRequest{Shard: t.store.Shard(name), ID: driver.NewSessionID(), TTL: t.long})
	if err == nil {
		_ = d.Close(ctx)
	}
}

// passGrace lets the grace of name's shard pass.
func (t *scene) passGrace(name string, keep ...*session) {
	if g := t.inspect(name).Grace; g > 0 {
		t.elapseKeeping(g+t.slack, keep...)
	}
}

// wantErr fails unless err wraps target.
func (t *scene) wantErr(what string, err, target error) {
	if !errors.Is(err, target) {
		t.errorf("%s: got error %v, want one that wraps %q", what, err, target)
	}
}
