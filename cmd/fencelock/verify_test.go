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

func TestVerify(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "verify", "--only", "T,O1", "--ttl", "1s").want(0).out.String(),
		"passed   T1/rise", "skipped  T5/after a loss", "0 failed")
	var cases []verifyCase
	p := fencelockCLI(t, s.url(), "verify", "--only", "O", "-o", "json").want(0)
	if err := json.Unmarshal([]byte(p.out.String()), &cases); err != nil || len(cases) < 7 || cases[0].Rule == "" {
		t.Errorf("%v, %+v", err, cases)
	}
	fencelockCLI(t, s.url(), "verify", "--only", "nothing").want(64)
	fencelockCLI(t, "redis://127.0.0.1:1", "verify").want(69)
	if out := fencelockCLI(t, s.url(), "ls", "-o", "name").want(0).out.String(); out != "" {
		t.Errorf("it used the namespace of the application: %s", out)
	}
}

// TestVerifyNeedsUsableStore: a database without tables is a missing migration, said
// once, and not a violated contract.
func TestVerifyNeedsUsableStore(t *testing.T) {
	t.Parallel()
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", startSQL(t, servers.Postgres))
	p := fencelockCLI(t, url, "verify", "--only", "S1").want(exitUsage)
	contains(t, p.err.String(), "migrate=true")
	if out := p.out.String(); strings.Contains(out, "failed") {
		t.Errorf("a missing table counts as a violated clause: %s", out)
	}
}
