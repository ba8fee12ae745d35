// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
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
