// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net"
	"os/exec"
	"os/user"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
)

// TestMemcached: memcached is good enough to run one command at a time, and refused
// where that is not enough.
func TestMemcached(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("memcached"); err != nil {
		t.Skip("memcached is not installed; on Debian: apt-get install memcached")
	}
	port := freePort(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-u", me.Username)
	if err := servers.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, "memcached listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	url := "memcached://127.0.0.1:" + port
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
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
