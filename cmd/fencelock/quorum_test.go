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
	for range 2 {
		p := fencelockCLI(t, url, "run", "a", "--ttl", "4s", "--", "true").want(69)
		for _, up := range addrs[:2] {
			// On a busy machine one may be away for a moment; what is reported at the end is not taken back.
			if _, after, away := strings.Cut(p.err.String(), up+": warning: away"); away && !strings.Contains(after, up+": note: back") {
				t.Errorf("%s is up: %s", up, p.err.String())
			}
		}
	}
}
