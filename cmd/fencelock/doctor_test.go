// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "doctor").want(0).out.String(),
		"on redis", "taken and given back", "What is promised", "nothing to worry about")
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

// TestDoctorFindsEviction: a finding of the server's own check is shown.
func TestDoctorFindsEviction(t *testing.T) {
	t.Parallel()
	s := startRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	p := fencelockCLI(t, s.url(), "doctor").want(1)
	contains(t, p.out.String(), "DANGER   eviction", s.addr, "change: ")
	if out := fencelockCLI(t, s.url(), "doctor", "-o", "json").want(1).out.String(); !strings.Contains(out, `"ok": false`) {
		t.Error(out)
	}
}
