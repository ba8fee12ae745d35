// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestTokensAreTextInJSON: tokens exceed 2^53, and most readers of JSON round such
// numbers: jq 1.6 turns ...514432 into ...514400. A guard that is given a rounded token
// rejects the true holder, or admits an old one.
func TestTokensAreTextInJSON(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	l, err := c.Mutex("a").Lock(t.Context())
	must.OK(t, err)
	watch := begin(t, s.url(), "ls", "--watch", "--every", "50ms")
	until(t, "the lock is seen", func() bool { return strings.HasSuffix(watch.out.String(), "\n") })
	_ = watch.cmd.Process.Signal(syscall.SIGINT)
	watch.end()
	outputs := map[string]string{
		"ls":      fencelockCLI(t, s.url(), "ls", "-o", "json").want(0).out.String(),
		"why":     fencelockCLI(t, s.url(), "why", "a", "-o", "json").want(0).out.String(),
		"watch":   watch.out.String(),
		"busy":    fencelockCLI(t, s.url(), "run", "a", "--try", "--status-fd", "1", "--", "true").want(75).out.String(),
		"ran":     fencelockCLI(t, s.url(), "run", "b", "--status-fd", "1", "--", "true").want(0).out.String(),
		"acquire": script(t, s.url(), `exec $F acquire c --while $$ -o json`).want(0).out.String(),
		"renew":   script(t, s.url(), `eval "$($F acquire d --while $$)" || exit; $F renew -o json`).want(0).out.String(),
		"release": script(t, s.url(), `eval "$($F acquire e --while $$)" || exit; $F release -o json`).want(0).out.String(),
	}
	// What a program reads is what break takes.
	held := tokensIn(t, "why", outputs["why"])
	if len(held) != 1 || held[0] != l.Token().String() {
		t.Fatalf("why has %q, the lease %v", held, l.Token())
	}
	outputs["break"] = fencelockCLI(t, s.url(), "break", "a", "--token", held[0], "--reason", "x", "-o", "json").want(0).out.String()
	for command, text := range outputs {
		if len(tokensIn(t, command, text)) == 0 {
			t.Errorf("%s has no token: %s", command, text)
		}
	}
	if _, err := exec.LookPath("jq"); err == nil {
		jq := bounded(t, "jq", "-r", ".locks[].holders[].token")
		jq.Stdin = strings.NewReader(outputs["why"])
		if out, err := jq.Output(); err != nil || strings.TrimSpace(string(out)) != held[0] {
			t.Errorf("jq made %s of %s: %v", out, held[0], err)
		}
	}
}

// tokensIn finds the tokens in a command's JSON and fails the test for one that is not a
// string of digits.
func tokensIn(t *testing.T, command, text string) []string {
	t.Helper()
	var found []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for key, e := range v {
				if key != "token" && key != "fence" {
					walk(e)
					continue
				}
				token, ok := e.(string)
				if !ok || token == "" || strings.Trim(token, "0123456789") != "" {
					t.Errorf("%s: %s is %v, not a string of digits", command, key, e)
				}
				found = append(found, token)
			}
		}
	}
	values := json.NewDecoder(strings.NewReader(text))
	for {
		var v any
		if err := values.Decode(&v); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatalf("%s: %v in %s", command, err, text)
		}
		walk(v)
	}
}
