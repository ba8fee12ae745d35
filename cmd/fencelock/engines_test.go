// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestEngines: run, ls and doctor work on every engine that does not live in one
// process.
func TestEngines(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string { return startRedis(t).url() },
		"etcd": func(t *testing.T) string {
			if _, err := exec.LookPath("etcd"); err != nil {
				t.Skip("etcd is not installed; on Debian: apt-get install etcd-server etcd-client")
			}
			return "etcd://" + startEtcd(t)
		},
		"quorum": func(t *testing.T) string {
			a, b, c := startRedis(t), startRedis(t), startRedis(t)
			return "quorum://" + strings.Join([]string{a.addr, b.addr, c.addr}, ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			path, err := binary()
			if err != nil {
				t.Fatal(err)
			}
			p := fencelockCLI(t, url, "run", "a", "--reason", "why not", "--", "sh", "-c", path+" ls; "+path+" run a --try -- true; exit 3").want(3)
			contains(t, p.out.String(), "why not")
			contains(t, p.err.String(), "is held by")
			contains(t, fencelockCLI(t, url, "doctor").want(0).out.String(), "taken and given back", "What is promised")
		})
	}
}
