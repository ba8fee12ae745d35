// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// TestPythonClientOnAStoreWithoutTokens: a lease is held for longer than its TTL, excludes others, and is released. Its token is 0.
func TestPythonClientOnAStoreWithoutTokens(t *testing.T) {
	t.Parallel()
	store := "memcached://" + servers.Test(t, func() (*servers.MemcachedServer, error) { return servers.Memcached() }).Addr
	users := filepath.Join(t.TempDir(), "users.json")
	token := strings.TrimSpace(fencelockCLI(t, store, "serve", "token", "ann", "--may", "take", "--users", users).want(0).out.String())
	_, url := servingAt(t, store, "--users", users)
	if c := newAPIClient(url, token, 10*time.Second); c.open() != nil || c.carried {
		t.Error("no session, or one whose leases are said to survive their server")
	}
	out, err := python(t, `
import time
from fencelock import *
first, second = (Client(sys.argv[1], token=sys.argv[2], ttl=5) for _ in range(2))
with first.lock("x", wait=30) as lease:
    print("token", lease.token)
    end = time.monotonic() + 7
    while time.monotonic() < end:
        lease.check()
        time.sleep(0.1)
    try:
        second.lock("x", wait=0)
    except Busy:
        print("busy")
second.lock("x", wait=30).release()
print("released")
`, url, token).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantText(t, string(out), "token 0\nbusy\nreleased")
}
