// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestHandleIsASecret: a handle comes back from its text, every change of it is another
// session, and no format shows it.
func TestHandleIsASecret(t *testing.T) {
	h, err := NewHandle(5*time.Second, "worker 3")
	must.OK(t, err)
	back, err := ParseHandle(h.Text())
	if err != nil || back != h || back.TTL() != 5*time.Second || back.holder("ann") != "ann:worker 3" {
		t.Errorf("%v, %v", back, err)
	}
	for _, format := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
		if shown := fmt.Sprintf(format, h); strings.Contains(shown, h.Text()[8:20]) {
			t.Errorf("%s shows %s", format, shown)
		}
	}
	other, err := NewHandle(5*time.Second, "worker 3")
	must.OK(t, err)
	seen := map[string]bool{}
	for _, reentry := range []string{
		h.reentry("ann", "x", "1"), h.reentry("bob", "x", "1"), h.reentry("ann", "y", "1"), h.reentry("ann", "x", "2"), h.reentry("ann", "x1", ""),
		h.reentry("annx", "", "1"), other.reentry("ann", "x", "1"),
	} {
		if seen[reentry] {
			t.Errorf("%s is there twice", reentry)
		}
		seen[reentry] = true
	}
	if h.key("ann") == h.key("bob") || h.key("ann") == other.key("ann") {
		t.Error("two sessions have one key")
	}
}

// TestHolderShowsItsUser: no owner makes a client look like that of another user.
func TestHolderShowsItsUser(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ user, owner, want string }{
		{"a", "b:x", "a:b:x"}, {"a:b", "x", "a%3Ab:x"}, {"a%3Ab", "x", "a%253Ab:x"}, {"ann@example.org", "web 1", "ann@example.org:web 1"},
	} {
		h, err := NewHandle(time.Second, c.owner)
		must.OK(t, err)
		got := h.holder(c.user)
		if got != c.want || seen[got] != "" {
			t.Errorf("%s with owner %s is %s, want %s; so is %q", c.user, c.owner, got, c.want, seen[got])
		}
		seen[got] = c.user
	}
}

// TestBadHandles: what is not a handle is an error that does not repeat it.
func TestBadHandles(t *testing.T) {
	short := handlePrefix + base64.RawURLEncoding.EncodeToString(make([]byte, 4+secretBytes-1))
	long := handlePrefix + base64.RawURLEncoding.EncodeToString(make([]byte, 4+secretBytes+MaxOwner+1))
	h, err := NewHandle(time.Second, "")
	must.OK(t, err)
	for _, text := range []string{"", handlePrefix, short, long, h.Text()[1:], h.Text() + "=", h.Text() + "\n", strings.ToUpper(h.Text())} {
		if _, err := ParseHandle(text); !errors.Is(err, ErrHandle) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewHandle(time.Second, "a\nb"); err == nil {
		t.Error("an owner with a control character")
	}
}

// TestTrustedTime: a client trusts a lease up to a margin before the server unlocks it, and
// no longer than the server itself.
func TestTrustedTime(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what                    string
		expires, deadline, want time.Duration
	}{
		{"by the TTL of the client", 10 * time.Second, time.Minute, 8910 * time.Millisecond},
		{"by the lease of the server", 10 * time.Second, 4 * time.Second, 3960 * time.Millisecond},
		{"over", 10 * time.Second, -time.Second, 0},
		{"after a wait of 5 s", 15 * time.Second, time.Minute, 13860 * time.Millisecond},
	} {
		if got := Trusted(now, now.Add(c.expires), now.Add(c.deadline), 10*time.Second); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestWorkers: no acquisition waits for another, some goroutines stay for the next ones, and none outlives the server.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, end := make(chan struct{}), make(chan struct{})
		w := workers{work: make(chan func()), closing: closing}
		var begun atomic.Int32
		for range 3 * maxIdle {
			w.do(func() { begun.Add(1); <-end })
		}
		synctest.Wait()
		if n := begun.Load(); n != 3*maxIdle {
			t.Errorf("%d of %d began", n, 3*maxIdle)
		}
		close(end)
		synctest.Wait()
		if n := w.idle.Load(); n != maxIdle {
			t.Errorf("%d goroutines stay, want %d", n, maxIdle)
		}
		during := int32(-1)
		w.do(func() { during = w.idle.Load() })
		synctest.Wait()
		if during != maxIdle-1 {
			t.Errorf("while one works %d wait, want one less than %d", during, maxIdle)
		}
		close(closing) // a goroutine that stayed would fail the test
	})
}

// TestUnlockedIsBounded: a server that ends does not wait for a store that does not answer, and counts what is left.
func TestUnlockedIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		within := func() int {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			return w.servers[0].Unlocked(ctx)
		}
		left := func(want int) {
			w.Helper()
			began := time.Now()
			if got := within(); got != want || want > 0 && time.Since(began) != time.Second {
				w.Errorf("%d unlocks left after %v, want %d", got, time.Since(began), want)
			}
		}
		h := w.client()
		a := w.acquire(0, h, "1", "a")
		w.acquire(0, h, "2", "b")
		w.atOnce(func() { left(0) })
		w.links[0].slow.Store(true)
		n := named(a)
		go func() { _, _ = w.servers[0].Release(w.Context(), calls(h), &n) }()
		synctest.Wait()
		left(1)
		time.Sleep(ttl) // b is not renewed, and the call for a is over
		left(1)
		w.links[0].slow.Store(false)
		if left := w.servers[0].Unlocked(w.Context()); left != 0 {
			w.Errorf("%d unlocks left at the end", left)
		}
		time.Sleep(ttl)
		w.free("a", "b")
	})
}
