// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestQuorumNamesOnlyServersThatAreAway: a majority of the servers is down, and the command
// gives up. It does not report those that are up as away because it leaves.
func TestQuorumNamesOnlyServersThatAreAway(t *testing.T) {
	t.Parallel()
	var addrs []string
	for i := range 5 {
		s := startRedis(t)
		addrs = append(addrs, s.addr)
		if i > 1 {
			s.Kill()
		}
	}
	url := "quorum://" + strings.Join(addrs, ",")
	for range 3 {
		p := fencelockCLI(t, url, "run", "a", "--ttl", "2s", "--", "true").want(69)
		for _, up := range addrs[:2] {
			if strings.Contains(p.err.String(), up+": warning: away") {
				t.Errorf("%s is up: %s", up, p.err.String())
			}
		}
	}
}
