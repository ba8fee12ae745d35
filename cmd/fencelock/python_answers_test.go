// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// asked is what a Python client sent.
type asked struct {
	Path  string
	ID    string
	Moved bool
}

// pythonAsks lets a Python client lock and release once. The acquisitions are answered one after the other: a state, or
// a connection that is closed.
func pythonAsks(t *testing.T, acquisitions ...string) (all []asked) {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		a := asked{Path: r.URL.Path}
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		answer := map[string]any{"session": "fls_x", "state": "released", "leases": []any{}}
		if r.URL.Path == "/v1/acquire" {
			answer = map[string]any{"state": acquisitions[0], "token": "7", "trusted_ms": 60000}
			if len(acquisitions) > 1 {
				acquisitions = acquisitions[1:]
			}
		}
		if r.URL.Path != "/v1/renew" && r.URL.Path != "/v1/session" {
			all = append(all, a)
		}
		if answer["state"] == "closed" {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	script := python(t, `fencelock.Client(sys.argv[1]).lock("x", wait=60).release()`, server.URL)
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	return all
}

// TestPythonClientDropsALostLease: a lease that was granted and lost before the client heard of it is never
// held again, so the client does not ask for it in a loop.
func TestPythonClientDropsALostLease(t *testing.T) {
	t.Parallel()
	all := pythonAsks(t, "lost", "held")
	if len(all) != 3 || all[0].ID == all[1].ID || all[1].ID != all[2].ID {
		t.Errorf("the calls are %+v; want two acquisitions with an id each, and the release of the second", all)
	}
}

// TestPythonClientReleasesWhatASilentServerMayHold: a server that did not answer may have granted the lock, too, so the
// release after a repeated acquisition ends that grant as well.
func TestPythonClientReleasesWhatASilentServerMayHold(t *testing.T) {
	t.Parallel()
	all := pythonAsks(t, "closed", "held")
	if last := all[len(all)-1]; last.Path != "/v1/release" || !last.Moved {
		t.Errorf("the last call is %+v; want a release of a lease that may have moved", last)
	}
	if all = pythonAsks(t, "held"); slices.ContainsFunc(all, func(a asked) bool { return a.Moved }) {
		t.Errorf("the calls are %+v; want none about a lease that has moved", all)
	}
}

// TestPythonClientNamesTheServer: a URL without its scheme is rejected at once, and a server that does not answer is
// named in the error.
func TestPythonClientNamesTheServer(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"localhost:7420":     "ValueError: 'localhost:7420' is not the URL of a server: write it as http://localhost:7420",
		"http://127.0.0.1:1": "Unavailable: 127.0.0.1:1/v1/session: ",
	} {
		out, err := python(t, `fencelock.Client(sys.argv[1], ttl=0.1).lock("x", wait=0)`, url).CombinedOutput()
		if err == nil {
			t.Errorf("%s: no error", url)
		}
		contains(t, string(out), want)
	}
}
