// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsInAGracePeriod: a script can tell a store that grants nothing for now from a lock that is held, and a job that is due in it is
// not skipped.
func TestCommandsInAGracePeriod(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	url := s.url() + "?grace=true&max_ttl=6s"
	file := filepath.Join(t.TempDir(), "status")
	run := func(args ...string) *process {
		return fencelockCLI(t, url, append([]string{"run", "job", "--ttl", "6s"}, args...)...)
	}
	contains(t, run("--try", "--status-file", file, "--", "true").want(exitGrace).err.String(), "no new locks for ")
	if st := readStatus(t, file); st.Outcome != "grace" || st.ExitCode != exitGrace {
		t.Errorf("got %+v", st)
	}
	job := begin(t, url, "run", "job", "--ttl", "6s", "--once-per", "10000h", "--", "echo", "ran")
	contains(t, run("--wait", "300ms", "--", "true").want(exitGrace).err.String(), "no new locks for ", "--wait 300ms")
	contains(t, run("--once-per", "10000h", "--wait", "300ms", "--", "true").want(exitGrace).err.String(), "no new locks for ")
	contains(t, fencelockCLI(t, url, "doctor", "--ttl", "6s").want(0).out.String(), "NOTE     grace", "no new locks for ")
	contains(t, job.want(0).out.String(), "ran") // after the grace period
}

// TestPythonClientTellsAGracePeriod: it is not a store that is away, which a client tries again and again.
func TestPythonClientTellsAGracePeriod(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/acquire" {
			_, _ = w.Write([]byte(`{"session": "fls_x", "leases": []}`))
			return
		}
		w.Header().Set("Retry-After", "12")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status": 503, "code": "grace", "title": "Service Unavailable", "detail": "no new locks for 12s"}`))
	}))
	defer server.Close()
	script := python(t, `
try:
    fencelock.Client(sys.argv[1]).lock("x", wait=0)
except fencelock.Grace as err:
    print(err.retry_after, isinstance(err, fencelock.Unavailable), err)
`, server.URL)
	out, err := script.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "12.0 True ") || !strings.Contains(string(out), "no new locks for 12s") {
		t.Errorf("got %s, %v", out, err)
	}
}
