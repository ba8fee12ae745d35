// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/internal/must"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain, 日本, é": "plain, 日本, é", "a\nb\tc": "a b c", "\x1b[2Jx": "\ufffd[2Jx", "a\u009bm": "a\ufffdm", "\u202egpj": "\ufffdgpj",
	} {
		if got := text.Clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestTextsAreNotAboutGo: what a library's error says to Go programs is left out, or named as
// the command names it.
func TestTextsAreNotAboutGo(t *testing.T) {
	for in, want := range map[string]string{
		"add grace=true to the URL (Options{Grace: true}), or wait": "add grace=true to the URL, or wait",
		"write redis-cluster:// (in Go: redis.NewClusterClient); x": "write redis-cluster://; x",
		"1.5s before (with MaxHold: a tenth of its length).":        "1.5s before.",
		"fencelock: Options.TTL is 1ms":                             "--ttl is 1ms",
		"sqlstore: Options.MaxTTL is 1ms: choose":                   "max_ttl is 1ms: choose",
		"use replication, or Options.Grace.":                        "use replication, or grace=true.",
	} {
		if got := text.OneLine(errors.New(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestViewsAreClean: what other programs wrote into a lock does nothing to a terminal,
// in any view. Programs that read JSON get it as it was.
func TestViewsAreClean(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	const evil = "ev\x1b[2Jil\nroot"
	c := s.client(t, &fencelock.Options{Owner: evil, Labels: map[string]string{"k\x1b": evil}})
	if _, err := c.Mutex("a", fencelock.Reason(evil)).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiter := s.client(t, &fencelock.Options{Owner: evil + "2"})
	go func() { _, _ = waiter.Mutex("a", fencelock.Reason(evil)).Lock(t.Context()) }()
	until(t, "a client waits", func() bool { st, err := c.Inspect(t.Context(), "a"); return err == nil && st.Waiting == 1 })
	for _, args := range [][]string{{"ls"}, {"ls", "-o", "wide"}, {"why", "a"}, {"why"}, {"run", "a", "--try", "--", "true"},
		{"run", "a", "--wait", "3s", "--", "true"}, {"break", "a", "--reason", "x"}} {
		p := fencelockCLI(t, s.url(), args...)
		text := p.out.String() + p.err.String()
		if !strings.Contains(text, "ev\ufffd[2Jil") && !strings.Contains(text, `"ev\x1b[2Jil\nroot"`) { // errors of the library are quoted
			t.Errorf("%v does not name the owner: %q", args, text)
		}
		if strings.ContainsAny(text, "\x1b\r") || strings.Contains("\n"+text, "\nroot") {
			t.Errorf("%v: %q", args, text)
		}
	}
	var v whyJSON
	if err := json.Unmarshal([]byte(fencelockCLI(t, s.url(), "why", "a", "-o", "json").want(0).out.String()), &v); err != nil || v.Locks[0].Holders[0].Reason != evil {
		t.Errorf("%+v, %v", v, err)
	}
	screen := &topScreen{width: 120, height: 20}
	st, err := c.Inspect(t.Context(), "a")
	must.OK(t, err)
	screen.took([]fencelock.Status{st}, nil, time.Now())
	for range 2 {
		if out := escapes.ReplaceAllString(screen.render(), ""); strings.Contains(out, "\x1b") || !strings.Contains(out, "ev\ufffd[2Jil root") {
			t.Errorf("top: %q", out)
		}
		screen.press("down")
		screen.press("enter")
	}
}

// TestMessagesAreForTheShell: messages name flags and URL parameters, not what a Go program
// would write, and repeat no prefix.
func TestMessagesAreForTheShell(t *testing.T) {
	for in, want := range map[string]string{
		"fencelock: Options.TTL is 15s, the redis store takes at most 10s":              "--ttl is 15s, the redis store takes at most 10s",
		"redisstore: x; add accept=eviction to the URL (Options.Accept): refused":       "x; add accept=eviction to the URL: refused",
		"add max_ttl=20s to the URL (Options{MaxTTL: 20s}) or use another":              "add max_ttl=20s to the URL or use another",
		"fencelock: store unavailable: etcdstore: open h:1: store unavailable: refused": "store unavailable: open h:1: refused",
		"store unavailable: redisstore: open h:1: redisstore: outcome unknown: EOF":     "store unavailable: open h:1: outcome unknown: EOF",
		"lock \"a (b)\": held by x (nightly)":                                           "lock \"a (b)\": held by x (nightly)",
	} {
		if got := text.OneLine(errors.New(in)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	t.Run("wrong TTL", func(t *testing.T) {
		t.Parallel()
		s := startRedis(t)
		contains(t, fencelockCLI(t, s.url(), "run", "a", "--ttl", "1ms", "--", "true").want(exitUsage).err.String(), "--ttl is 1ms", "at least")
	})
	t.Run("closed port, little time", func(t *testing.T) {
		t.Parallel()
		contains(t, fencelockCLI(t, "redis://127.0.0.1:1", "run", "a", "--wait", "2s", "--", "true").want(exitUnavailable).err.String(), "connection refused")
	})
}
