// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"strings"
	"testing"
)

// TestSettings: an operator sees what a namespace has, sets up a new one, and makes it weaker when no process asks for more.
func TestSettings(t *testing.T) {
	t.Parallel()
	url := startRedis(t).url()
	contains(t, fencelockCLI(t, url, "settings").want(0).out.String(), "no process has used the namespace yet")
	contains(t, fencelockCLI(t, url+"?grace=true", "settings", "--new").want(0).out.String(), "grace    true ", "max_ttl  15s ")
	fencelockCLI(t, url+"?grace=true", "run", "x", "--try", "--", "true").want(0) // without a grace period
	contains(t, fencelockCLI(t, url, "settings", "--new").want(exitUsage).err.String(), `the namespace "fencelock" is set up`)
	held := acquired(t, url+"?grace=true")
	refused := fencelockCLI(t, url, "settings", "grace=false").want(exitUsage).err.String()
	contains(t, refused, "1 open sessions ask for more; deploy their processes with grace=false first")
	if strings.Contains(refused, "another namespace") {
		t.Errorf("%s: another namespace would make two holders", refused)
	}
	held()
	contains(t, fencelockCLI(t, url, "settings", "grace=false").want(0).out.String(), "grace    false ")
	contains(t, fencelockCLI(t, url, "settings", "max_ttl=5s", "-o", "json").want(0).out.String(), `"name": "max_ttl"`, `"value": "5s"`)
	for args, text := range map[string]string{
		"grace=off": "it must be true or false", "color=red": "there are grace and max_ttl", "grace": "is not NAME=VALUE", "buckets=4": "cannot be changed",
	} {
		contains(t, fencelockCLI(t, url, "settings", args).want(exitUsage).err.String(), text)
	}
	contains(t, fencelockCLI(t, "mem://", "settings").want(exitUsage).err.String(), "memory has no settings")
}

// acquired has another process hold a lock, and returns how to end that process.
func acquired(t *testing.T, url string) func() {
	t.Helper()
	out := fencelockCLI(t, url, "acquire", "kept").want(0).out.String()
	var handle string
	for line := range strings.Lines(out) {
		if _, value, ok := strings.Cut(line, "FENCELOCK_HANDLE="); ok {
			handle, _, _ = strings.Cut(strings.TrimPrefix(value, "'"), "'")
		}
	}
	return func() { fencelockCLI(t, url, "release", "--handle", handle).want(0) }
}
