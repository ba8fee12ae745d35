// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"testing"
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
