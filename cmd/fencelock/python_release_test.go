// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// TestPythonReleaseIsRepeated: a release that no server answered is not taken for one that did. The next release() makes
// the call again, and close() names the lease.
func TestPythonReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 60_000) })
	wantText(t, pythonRuns(t, `
again, closed, insist = client.lock("again"), client.lock("closed"), client._insist
def away(*args):
    raise Unavailable("no server answers")
client._insist = away
for lease in again, closed:
    try:
        lease.release()
    except Unavailable:
        print(lease.valid())
client._insist = insist
again.release()
again.release()
client.close()
`, s), "False\nFalse")
	if all := s.of("/v1/release"); len(all) != 1 || all[0].Lock != "again" {
		t.Errorf("%+v, want the second release of one lease, and no third", all)
	}
	if all := s.of("/v1/end"); len(all) != 1 || len(all[0].Leases) != 1 {
		t.Errorf("%+v, want the lease that was not released", all)
	}
}

// TestPythonThreadsAreStartedAgain: a lock() that fails because there are too many threads leaves no client whose leases
// are neither renewed nor watched.
func TestPythonThreadsAreStartedAgain(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"1", "2"} { // which start fails
		s := newPythonServer(t, func(c *pythonCall) any { return held(c, 1000, 0) })
		wantText(t, pythonRuns(t, `
starts, start = [], threading.Thread.start
def limited(self):
    starts.append(self)
    if len(starts) == `+script+`:
        raise RuntimeError("can't start new thread")
    start(self)
threading.Thread.start = limited
try:
    client.lock("x")
except RuntimeError:
    print("too many")
print(client.lock("y").lost.wait(30))
end = time.monotonic() + 30
while sum(t.is_alive() for t in starts) < 2 and time.monotonic() < end:
    time.sleep(0.01)
print(sum(t.is_alive() for t in starts))
`, s), "too many\nTrue\n2")
		if n := len(s.of("/v1/release")); n != 1 {
			t.Errorf("%d releases, want that of the lock that failed", n)
		}
	}
}

// TestPythonFirstLockWaitsForAServer: the call that makes the session is repeated for as long as lock() waits, not for a TTL.
func TestPythonFirstLockWaitsForAServer(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := newPythonServer(t, func(c *pythonCall) any {
		if c.Path == "/v1/session" && calls.Add(1) <= 8 { // 3 s, with a TTL of 2
			return http.StatusServiceUnavailable
		}
		return held(c, 60_000, 60_000)
	})
	wantText(t, pythonRuns(t, `
print(client.lock("x", wait=60).token)
`, s), "7")
}
