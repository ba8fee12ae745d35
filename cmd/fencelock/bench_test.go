// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"testing"
)

func TestBench(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := fencelockCLI(t, s.url(), "bench", "--for", "1s", "--workers", "4", "-o", "json").want(0)
	var parts []measurement
	if err := json.Unmarshal([]byte(p.out.String()), &parts); err != nil || len(parts) != 2 {
		t.Fatalf("%v: %s", err, p.out.String())
	}
	for _, m := range parts {
		if m.Count < 1 || m.PerSecond <= 0 || m.MedianMS <= 0 || m.MedianMS > m.P99MS || m.P99MS > m.MostMS {
			t.Errorf("got %+v", m)
		}
	}
	contains(t, fencelockCLI(t, s.url(), "bench", "--for", "2s").want(0).out.String(), "PER SECOND", "handoff")
	fencelockCLI(t, s.url(), "bench", "--workers", "0").want(64)
}
