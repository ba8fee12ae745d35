// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"testing"

	"github.com/fencelock/fencelock"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "doctor").want(0).out.String(),
		"taken and given back", "What is promised on redis", "nothing to worry about")
	p := fencelockCLI(t, s.url(), "doctor", "--correctness").want(1)
	contains(t, p.out.String(), "DANGER   forgets", "grace=true")
	p = fencelockCLI(t, s.url()+"?grace=true&namespace=g", "doctor", "--correctness", "-o", "json").want(0)
	var d diagnosis
	if err := json.Unmarshal([]byte(p.out.String()), &d); err != nil {
		t.Fatal(err)
	}
	if !d.OK || d.Engine != "redis" || d.Guarantees.Fencing != fencelock.Strict || len(d.Findings) != 1 || d.Findings[0].Code != "grace" {
		t.Errorf("a new namespace with grace: %+v", d)
	}
	// Settings other than those of the namespace are refused, not let in.
	contains(t, fencelockCLI(t, s.url()+"?max_ttl=30s", "doctor").want(1).out.String(), "DANGER   lock", "maxttl")
	contains(t, fencelockCLI(t, "mem://", "doctor").want(1).out.String(), "one-process", "redis://")
	fencelockCLI(t, s.url(), "doctor", "--fail-on", "nonsense").want(64)
	fencelockCLI(t, "redis://127.0.0.1:1", "doctor").want(69)
}

// TestDoctorFinds: what the server's own check finds is shown, and a server on which
// locks cannot work is refused by run, too.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	s := startRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	fencelockCLI(t, s.url(), "doctor").want(0)
	p := fencelockCLI(t, s.url(), "doctor", "--fail-on", "warning").want(1)
	contains(t, p.out.String(), "WARNING  eviction", s.addr, "change: ")
	if p.err.String() != "" {
		t.Errorf("said twice: %s", p.err.String())
	}
	contains(t, fencelockCLI(t, s.url(), "run", "a", "--", "true").want(0).err.String(), "eviction")
	if p := fencelockCLI(t, s.url()+"?accept=eviction", "run", "a", "--", "true").want(0); p.err.String() != "" {
		t.Errorf("accepted, and said all the same: %s", p.err.String())
	}
	s = startRedis(t, "--cluster-enabled", "yes")
	p = fencelockCLI(t, s.url(), "doctor", "-o", "json").want(1)
	contains(t, p.out.String(), "cluster-client", `"ok": false`)
	contains(t, fencelockCLI(t, s.url(), "doctor").want(1).out.String(), "DANGER   refused")
	contains(t, fencelockCLI(t, s.url(), "run", "a", "--", "true").want(64).err.String(), "redis-cluster", "cluster-client")
}
