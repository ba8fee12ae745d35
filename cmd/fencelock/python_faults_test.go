// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// pythonCall is a call of a Python client.
type pythonCall struct {
	Path, From, ID, Lock string
	Moved                bool
	Leases               []struct {
		ID    string
		Moved bool
	}
	Size int64 // of the body
}

// pythonServer answers a Python client as a test wants: with an object, a text, a status, or by closing the connection
// if the answer is nil. It keeps the calls.
type pythonServer struct {
	*httptest.Server
	mu    sync.Mutex
	calls []pythonCall
}

func newPythonServer(t *testing.T, answer func(c *pythonCall) any) *pythonServer {
	t.Helper()
	s := &pythonServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := pythonCall{Path: r.URL.Path, From: r.RemoteAddr, Size: r.ContentLength}
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			panic(http.ErrAbortHandler) // the script has ended
		}
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		switch a := answer(&c).(type) {
		case nil:
			panic(http.ErrAbortHandler)
		case int:
			w.WriteHeader(a)
			_, _ = io.WriteString(w, `{"title": "it failed"}`)
		case notFound:
			http.NotFound(w, r)
		case string:
			_, _ = io.WriteString(w, a)
		default:
			_ = json.NewEncoder(w).Encode(a)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// of returns the calls of a path.
func (s *pythonServer) of(path string) (some []pythonCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Path == path {
			some = append(some, c)
		}
	}
	return some
}

type object = map[string]any

// notFound is the answer of another program.
type notFound struct{}

// held is the answer of a server that grants everything, and renews for a time.
func held(c *pythonCall, trusted, renewed int) any {
	answer := object{"session": "fls_x", "state": "held", "token": "7", "trusted_ms": trusted}
	leases := []object{}
	for range c.Leases {
		leases = append(leases, object{"state": "held", "token": "7", "trusted_ms": renewed})
	}
	if answer["leases"] = leases; c.Path == "/v1/release" {
		answer["state"] = "released"
	}
	return answer
}

// pythonRuns runs a script, which has the addresses of servers as its arguments, and returns what it writes.
func pythonRuns(t *testing.T, script string, to ...*pythonServer) string {
	t.Helper()
	var urls []string
	for _, s := range to {
		urls = append(urls, s.URL)
	}
	cmd := python(t, "import os, threading, time\nfrom fencelock import *\nclient = Client(sys.argv[1:], token='secret', ttl=2)\n"+script, urls...)
	var notes strings.Builder
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, notes.String())
	}
	return string(out)
}

// python is a script that has imported the client. One that blocks shows where, well before it is ended.
func python(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed; install it and run: go test ./cmd/fencelock -run TestPython")
	}
	cmd := bounded(t, "python3", append([]string{"-c", fmt.Sprintf("import faulthandler, fencelock, sys\nfaulthandler.dump_traceback_later(%v)\n", patience.Seconds()/2) + script}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "clients", "python"), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// wantText is for a script that writes its result.
func wantText(t *testing.T, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != want {
		t.Errorf("the script wrote %q, want %q", got, want)
	}
}

// untilRenewed waits in a script until a renewal of the good server has come.
const untilRenewed = `
end = time.monotonic() + 30
while any(l.remaining < 100 for l in leases) and time.monotonic() < end:
    time.sleep(0.01)
print("renewed" if all(l.remaining > 100 for l in leases) else "not renewed")
`

// TestPythonClientLeavesAServer: a server that fails, rejects renewals, closes its connections, or does not reach its store loses its clients to the
// next one before their leases end.
func TestPythonClientLeavesAServer(t *testing.T) {
	for name, bad := range map[string]any{
		"that fails": http.StatusServiceUnavailable, "that closes connections": nil, "that rejects renewals": http.StatusForbidden, "that is full": http.StatusTooManyRequests,
		"that is cut off": object{"leases": []object{{"state": "held", "token": "7", "trusted_ms": 1000, "elsewhere": true}}},
		"that is a proxy": "{}", "that is another program": "<html>", "of another form": `{"leases": 7}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newPythonServer(t, func(c *pythonCall) any {
				if c.Path == "/v1/renew" {
					return bad
				}
				return held(c, 30_000, 0)
			})
			second := newPythonServer(t, func(c *pythonCall) any { return held(c, 0, 1_000_000) })
			wantText(t, pythonRuns(t, "leases = [client.lock('x')]"+untilRenewed, first, second), "renewed")
		})
	}
}

// TestPythonClientRenewsAllLeases: even if there are more than a call names.
func TestPythonClientRenewsAllLeases(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 1_000_000) })
	wantText(t, pythonRuns(t, "leases = [client.lock(str(i)) for i in range(150)]"+untilRenewed, s), "renewed")
	for _, c := range s.of("/v1/renew") {
		if len(c.Leases) > 100 {
			t.Errorf("a call names %d leases", len(c.Leases))
		}
	}
}

// TestPythonReleaseIsLateByTheClock: a process that was paused for longer than its lease does not leave a with block as if
// it had held the lock, even if no thread of the client has run since.
func TestPythonReleaseIsLateByTheClock(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 300, 1) })
	wantText(t, pythonRuns(t, `
Client._watch = Client._renew = lambda self: None
try:
    with client.lock("x") as lease:
        while lease.valid():
            pass
except Lost:
    print("Lost", lease.lost.is_set())
`, s), "Lost True")
}

// TestPythonCallbackDelaysNoOther: a callback that does not return keeps no other lease from its notice.
func TestPythonCallbackDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 300, 1) })
	wantText(t, pythonRuns(t, `
for name in "xyz":
    print(client.lock(name, on_lost=lambda l: threading.Event().wait()).lost.wait(30))
`, s), "True\nTrue\nTrue")
}

// TestPythonClientShowsNoToken: not even one that cannot be sent.
func TestPythonClientShowsNoToken(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 1000, 1000) })
	wantText(t, pythonRuns(t, `
Client(sys.argv[1], token="secret\n").lock("x")  # as it is in a file
try:
    Client(sys.argv[1], token="sec\nret").lock("x", wait=0)
except (Error, ValueError) as err:
    print("sec" in str(err))
`, s), "False")
}

// TestPythonClientIsNotUsedAfterAFork: two processes would read each other's answers.
func TestPythonClientIsNotUsedAfterAFork(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 60_000) })
	wantText(t, pythonRuns(t, `
lease = client.lock("x")
taken, free = threading.Event(), threading.Event()
def at_work():  # as the thread that renews may be at the moment of the fork: no thread of the child gives this back
    with client._changed:
        taken.set()
        free.wait()
threading.Thread(target=at_work).start()
taken.wait()
child = os.fork()
if child == 0:
    for call in lease.release, lambda: client.lock("y"), lambda: lease.__exit__(None, None, None):
        try:
            call()
        except Error as err:
            print("fork" in str(err), flush=True)
    client.close()
    os._exit(0)
os.waitpid(child, 0)
free.set()
lease.release()
`, s), "True\nTrue\nTrue")
	if n := len(s.of("/v1/release")); n != 1 {
		t.Errorf("%d releases, want that of the parent", n)
	}
}

// TestPythonCloseIsOneCall: it does not take longer for more leases.
func TestPythonCloseIsOneCall(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 60_000) })
	wantText(t, pythonRuns(t, `
leases = [client.lock(name) for name in "xyz"]
client.close()
print([l.valid() for l in leases])
`, s), "[False, False, False]")
	if all := s.of("/v1/end"); len(all) != 1 || len(all[0].Leases) != 3 || len(s.of("/v1/release")) > 0 {
		t.Errorf("%+v, and %d releases; want one call for three leases", all, len(s.of("/v1/release")))
	}
}

// TestPythonAcquisitionKeepsItsConnection: behind a balancer another connection leads to another server, where the queue begins
// at its end.
func TestPythonAcquisitionKeepsItsConnection(t *testing.T) {
	t.Parallel()
	var s *pythonServer
	s = newPythonServer(t, func(c *pythonCall) any {
		if c.Lock == "x" && len(s.of("/v1/acquire")) < 100 {
			return object{"state": "waiting"}
		}
		return held(c, 60_000, 60_000)
	})
	pythonRuns(t, `
once = Client._acquire
def between(self, lease, until, most):
    got = once(self, lease, until, most)
    time.sleep(0.01 if lease.name == "x" else 0)  # the other thread uses the connections
    return got
Client._acquire = between
waits = threading.Thread(target=lambda: client.lock("x"))
waits.start()
while waits.is_alive():
    client.lock("y").release()
`, s)
	from := map[string]bool{}
	for _, c := range s.of("/v1/acquire") {
		if c.Lock == "x" {
			from[c.From] = true
		}
	}
	if len(from) != 1 {
		t.Errorf("the calls came over %d connections", len(from))
	}
}

// TestPythonReleaseAfterARenewalWithoutAnswer: the server that did not answer may have joined the lease, so it counts as moved.
func TestPythonReleaseAfterARenewalWithoutAnswer(t *testing.T) {
	for name, hangs := range map[string]bool{"under way": true, "failed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, over := make(chan struct{}, 1000), make(chan struct{})
			s := newPythonServer(t, func(c *pythonCall) any {
				switch {
				case c.Path == "/v1/renew" && hangs:
					asked <- struct{}{}
					<-over
				case c.Path == "/v1/renew":
					asked <- struct{}{}
					return nil
				case c.Path == "/v1/acquire" && c.Lock == "second": // the script goes on when a renewal was sent
					select {
					case <-asked:
					case <-over: // the test has failed
					}
				}
				return held(c, 60_000, 60_000)
			})
			defer close(over)
			pythonRuns(t, "first = client.lock('first')\nclient.lock('second')\nfirst.release()", s)
			if all := s.of("/v1/release"); len(all) != 1 || !all[0].Moved {
				t.Errorf("%+v, want a release of a lease that may have moved", all)
			}
		})
	}
}

// TestPythonClientReportsAWrongAddress: it does not repeat a call forever that another program answers.
func TestPythonClientReportsAWrongAddress(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(*pythonCall) any { return notFound{} })
	wantText(t, pythonRuns(t, `
try:
    client.lock("x")
except Denied as err:
    print(type(err).__name__)
`, s), "Denied")
}
