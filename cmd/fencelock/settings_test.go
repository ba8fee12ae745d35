// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStoreFromFlagEnvironmentAndFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("FENCELOCK_STORE", "")
	t.Setenv("FENCELOCK_CONFIG", "")
	want := func(a *app, url string) {
		t.Helper()
		if got, err := a.urlOfStore(); err != nil || got != url {
			t.Errorf("got %q, %v, want %q", got, err, url)
		}
	}
	want(&app{}, "")
	config, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(config, "fencelock", "config")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "# ours\n\nstore = redis://a?x=y # no comment\n")
	want(&app{}, "redis://a?x=y # no comment")
	other := filepath.Join(dir, "other")
	write(other, "store=redis://b\n")
	t.Setenv("FENCELOCK_CONFIG", other)
	want(&app{}, "redis://b")
	t.Setenv("FENCELOCK_STORE", "redis://c")
	want(&app{}, "redis://c")
	want(&app{storeURL: "redis://d"}, "redis://d")
	t.Setenv("FENCELOCK_STORE", "")
	write(other, "stor = x\n")
	if _, err := (&app{}).urlOfStore(); exitCode(err) != exitUsage {
		t.Errorf("a wrong line: %v", err)
	}
	t.Setenv("FENCELOCK_CONFIG", filepath.Join(dir, "missing"))
	if _, err := (&app{}).urlOfStore(); exitCode(err) != exitUsage {
		t.Errorf("a missing file that was asked for: %v", err)
	}
}

func TestSplitSettings(t *testing.T) {
	rest, s, err := splitSettings("redis://u:p@h/1?namespace=a%2Fb&pool_size=3&grace=true&max_ttl=90s&buckets=4&client_name=x&accept=clock,proxy")
	if err != nil || rest != "redis://u:p@h/1?pool_size=3&client_name=x" || s.namespace != "a/b" || !s.grace ||
		s.maxTTL != 90*time.Second || s.buckets != 4 || len(s.accept) != 2 {
		t.Errorf("got %q, %+v, %v", rest, s, err)
	}
	for _, bad := range []string{"grace=perhaps", "max_ttl=90", "buckets=x", "namespace=%zz"} {
		if _, _, err := splitSettings("redis://h?" + bad); exitCode(err) != exitUsage {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestQuorumNodes(t *testing.T) {
	nodes, err := quorumNodes("quorums://ann:s%40x@a,b:7000,[::1]:7001/2")
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%v, %v", nodes, err)
	}
	for i, want := range []string{"a:6379", "b:7000", "[::1]:7001"} {
		o := nodes[i].options
		if nodes[i].name != want || o.Addr != want || o.Username != "ann" || o.Password != "s@x" || o.DB != 2 || o.TLSConfig == nil {
			t.Errorf("%d: %s: %+v", i, nodes[i].name, o)
		}
	}
	for _, bad := range []string{"quorum://:secret@a,b/x", "quorum://a?pool_size=3"} {
		if _, err := quorumNodes(bad); exitCode(err) != exitUsage || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
