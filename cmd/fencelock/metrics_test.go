// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

func needPromtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; on Debian: apt-get install prometheus")
	}
	return path
}

// TestServeMetrics: a scrape has the locks that were named, jobs among them, and promtool
// finds nothing wrong with it. The alert rules name metrics that exist.
func TestServeMetrics(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	if _, err := c.Mutex("deploy/eu").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiter := s.client(t, nil) // another process: those of one wait inside of it
	go func() { _, _ = waiter.Mutex("deploy/eu").Lock(t.Context()) }()
	// A day that ends during the test would be two periods.
	fencelockCLI(t, s.url(), "run", "nightly@eu", "--once-per", "10000h", "--", "true").want(0)
	file := filepath.Join(t.TempDir(), "watches")
	must.OK(t, os.WriteFile(file, []byte("# jobs\nevery=10000h by=9999h nightly@eu\n"), 0o600))
	_, url := serving(t, s, "--watch", "held=1s waiting=1s deploy/*", "--watch-file", file)
	var text string
	until(t, "the locks are in the metrics", func() bool {
		text = fetched(t, url+"/metrics")
		return strings.Contains(text, `fencelock_lock_waiters{lock="deploy/*"} 1`)
	})
	contains(t, text, `fencelock_lock_holders{lock="deploy/*"} 1`, `fencelock_job_begun{lock="nightly@eu"} 1`, `fencelock_job_missed{lock="nightly@eu"} 1`, // not yesterday
		"fencelock_store_up 1", "fencelock_lock_held_limit_seconds")
	rules, err := os.ReadFile("packaging/alerts.yaml")
	must.OK(t, err)
	for _, name := range regexp.MustCompile(`\bfencelock_[a-z_]+`).FindAllString(string(rules), -1) {
		contains(t, text, "\n"+name)
	}
	for _, name := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		page, err := os.ReadFile("../../docs/serve.md")
		must.OK(t, err)
		contains(t, string(page), "`"+name[1]+"`")
	}
	check := bounded(t, needPromtool(t), "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s\n%s", err, out, text)
	}
}

// TestServeAlerts: the rules fire when they should, by their own tests.
func TestServeAlerts(t *testing.T) {
	t.Parallel()
	cmd := bounded(t, needPromtool(t), "test", "rules", "alerts_test.yaml")
	cmd.Dir = "packaging"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestServeRejectsBadWatches: what an operator mistypes is not left out.
func TestServeRejectsBadWatches(t *testing.T) {
	t.Parallel()
	contains(t, fencelockCLI(t, "mem://", "serve", "--watch", "held=x a").want(64).err.String(), "--watch", "a time such as")
	contains(t, fencelockCLI(t, "mem://", "serve", "--watch-file", "/does/not/exist").want(64).err.String(), "no such file")
}
