// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
)

func TestDoctorDeep(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "doctor", "--deep", "--only", "T,O1", "--deep-ttl", "1s").want(0).out.String(),
		"passed   T1/rise", "skipped  T5/after a loss", "0 failed")
	var d diagnosis
	p := fencelockCLI(t, s.url(), "doctor", "--deep", "--only", "O", "-o", "json").want(0)
	if err := json.Unmarshal([]byte(p.out.String()), &d); err != nil || !d.OK || len(d.Contract) < 7 || d.Contract[0].Rule == "" {
		t.Errorf("%v, %+v", err, d)
	}
	fencelockCLI(t, s.url(), "doctor", "--deep", "--only", "nothing").want(64)
	fencelockCLI(t, "redis://127.0.0.1:1", "doctor", "--deep").want(69)
	if out := fencelockCLI(t, s.url(), "ls", "-o", "name").want(0).out.String(); out != "" {
		t.Errorf("it used the namespace of the application: %s", out)
	}
}

// TestDoctorDeepNeedsUsableStore: a database without tables is a missing migration, said
// once, and not a violated contract.
func TestDoctorDeepNeedsUsableStore(t *testing.T) {
	t.Parallel()
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", startSQL(t, servers.Postgres))
	p := fencelockCLI(t, url, "doctor", "--deep", "--only", "S1").want(exitUsage)
	contains(t, p.err.String(), "migrate=true")
	if out := p.out.String(); strings.Contains(out, "failed") {
		t.Errorf("a missing table counts as a violated clause: %s", out)
	}
}
