// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "testing"

func TestRenew(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := script(t, s.url(), `set -e
		eval "$($F acquire a --max 5s --while $$)"
		$F renew --for 20m
		$F renew -o json
		sleep 5.5 # longer than --max
		$F why a
		$F renew -q
		$F release`).want(0)
	contains(t, p.out.String(), `"kept_ms": 11`, "held by 1")
	contains(t, p.err.String(), "a is held, token", "for 19m59s more")
	contains(t, fencelockCLI(t, s.url(), "renew").want(64).err.String(), "FENCELOCK_HANDLE")
	contains(t, fencelockCLI(t, s.url(), "renew", "--handle", "/nowhere").want(76).err.String(), "not held any more")
	fencelockCLI(t, s.url(), "renew", "--for", "-1s").want(64)
}
