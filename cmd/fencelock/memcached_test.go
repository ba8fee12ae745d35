// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestMemcached: memcached is good enough to run one command at a time, and refused
// where that is not enough.
func TestMemcached(t *testing.T) {
	t.Parallel()
	url := "memcached://" + servers.Test(t, func() (*servers.MemcachedServer, error) { return servers.Memcached() }).Addr
	path, err := binary()
	must.OK(t, err)
	p := fencelockCLI(t, url, "run", "a", "--", "sh", "-c", path+" run a --try -- true; exit 3").want(3)
	contains(t, p.err.String(), "is held by")
	fencelockCLI(t, url, "run", "a", "--correctness", "--", "true").want(64)
	p = fencelockCLI(t, url, "run", "a", "--", "sh", "-c", `echo "token ${FENCELOCK_TOKEN-none}"`).want(0)
	contains(t, p.out.String(), "token none")
	p = script(t, url, `FENCELOCK_TOKEN=1; eval "$($F acquire a --while $$)"; echo "token ${FENCELOCK_TOKEN-none}"; $F release`).want(0)
	contains(t, p.out.String(), "token none")
	for _, kind := range []string{"--shared", "--permits=2", "--once-per=1h"} {
		contains(t, fencelockCLI(t, url, "run", "b", kind, "--", "true").want(64).err.String(), "not supported by this store")
	}
}
