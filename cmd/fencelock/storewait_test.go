// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"strings"
	"testing"
)

// TestWaitCoversAStoreThatStarts: a job that starts while its store is away runs as soon
// as the store is back, within --wait. The store is back once run has written that it
// tries again.
func TestWaitCoversAStoreThatStarts(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"with --wait", []string{"run", "a", "--wait", "1m", "--", "echo", "ran"}},
		{"for one TTL without", []string{"run", "b", "--ttl", "1m", "--", "echo", "ran"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			link := newProxy(t, "127.0.0.1:1") // nothing listens there
			p := begin(t, "redis://"+link.addr, append([]string{"--timeout", "2s"}, tt.args...)...)
			until(t, "it tries again", func() bool { return strings.Contains(p.err.String(), "trying again for 1m00s") })
			link.Retarget(s.addr)
			p.want(0)
		})
	}
}

// TestStoreThatStaysAway: the wait for a store ends with --wait, --try does not wait, and
// both give the reason.
func TestStoreThatStaysAway(t *testing.T) {
	t.Parallel()
	const away = "redis://127.0.0.1:1"
	p := fencelockCLI(t, away, "run", "a", "--wait", "4s", "--", "true").want(exitUnavailable)
	contains(t, p.err.String(), "connection refused", "tried for 4.0s")
	p = fencelockCLI(t, away, "run", "a", "--ttl", "500ms", "--", "true").want(exitUnavailable)
	contains(t, p.err.String(), "tried for 500ms")
	p = fencelockCLI(t, away, "run", "a", "--try", "--", "true").want(exitUnavailable)
	if strings.Contains(p.err.String(), "trying again") {
		t.Errorf("--try waited: %s", p.err.String())
	}
}

// TestUnknownWordsHaveASuggestion: a misspelled command or scheme is answered with the one
// that was probably meant, and a URL whose scheme could be a secret is not shown.
func TestUnknownWordsHaveASuggestion(t *testing.T) {
	for _, tt := range []struct{ url, command, want string }{
		{"mem://", "lss", `unknown command "lss" (did you mean "ls"?)`},
		{"reddis://h", "ls", `unknown scheme reddis:// in the store's URL (did you mean "redis://"?)`},
		{"localhost:6379", "ls", "has no scheme; write it as redis://"},
		{"user:Secret9@h?x=://", "ls", "does not begin with a known scheme"},
	} {
		p := fencelockCLI(t, tt.url, tt.command).want(exitUsage)
		contains(t, p.err.String(), tt.want)
		if strings.Contains(p.err.String(), "Secret9") {
			t.Errorf("%s shows a secret: %s", tt.url, p.err.String())
		}
	}
}
