// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// benchmark measures for longer on a machine that is so busy that nothing is done in a short time.
func benchmark(t *testing.T, s *redisServer, args ...string) *process {
	t.Helper()
	length := 300 * time.Millisecond
	for length < 10*time.Second {
		p := fencelockCLI(t, s.url(), append([]string{"bench", "--for", length.String()}, args...)...)
		if !strings.Contains(p.err.String(), "nothing was done") {
			return p.want(0)
		}
		length *= 4
	}
	t.Fatalf("nothing was done in %v", length)
	return nil
}

func TestBench(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := benchmark(t, s, "--workers", "4", "-o", "json")
	var parts []measurement
	if err := json.Unmarshal([]byte(p.out.String()), &parts); err != nil || len(parts) != 2 {
		t.Fatalf("%v: %s", err, p.out.String())
	}
	for _, m := range parts {
		if m.Count < 1 || m.PerSecond <= 0 || m.MedianMS <= 0 || m.MedianMS > m.P99MS || m.P99MS > m.MostMS {
			t.Errorf("got %+v", m)
		}
	}
	contains(t, benchmark(t, s).out.String(), "PER SECOND", "handoff")
	fencelockCLI(t, s.url(), "bench", "--workers", "0").want(64)
}
