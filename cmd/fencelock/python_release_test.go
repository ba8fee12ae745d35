// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
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

// TestPythonReleaseWithALostAnswerIsNoLoss: a release was done and its answer was lost. Another server does not have the lease any more, and
// answers the repetition with lost. The program did its work under a lease, so nothing is raised; without a repetition it is.
func TestPythonReleaseWithALostAnswerIsNoLoss(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"repeated": "released", "at once": "Lost"} {
		var calls atomic.Int64
		s := newPythonServer(t, func(c *pythonCall) any {
			if c.Path != "/v1/release" {
				return held(c, 60_000, 60_000)
			}
			if name == "repeated" && calls.Add(1) == 1 {
				return nil
			}
			return object{"state": "lost", "why": "taken away by an operator"}
		})
		wantText(t, pythonRuns(t, `
try:
    client.lock("x").release()
    print("released")
except Lost:
    print("Lost")
`, s), want)
	}
}

// TestPythonCanceledWaitKeepsNoLock: a task that waits for a lock is canceled, and the lock is granted to its thread later. The thread
// gives it back.
func TestPythonCanceledWaitKeepsNoLock(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := newPythonServer(t, func(c *pythonCall) any {
		if c.Path == "/v1/acquire" && calls.Add(1) == 1 {
			time.Sleep(300 * time.Millisecond) // the wait at the server
			return object{"session": "fls_x", "state": "waiting"}
		}
		return held(c, 60_000, 60_000)
	})
	wantText(t, pythonRuns(t, `
import asyncio
async def wait():
    async with client.lock_async("x"):
        print("held")
async def main():
    try:
        await asyncio.wait_for(wait(), 0.1)
    except asyncio.TimeoutError:
        print("canceled")
asyncio.run(main())
end = time.monotonic() + 30
while client._leases and time.monotonic() < end:
    time.sleep(0.01)
print(len(client._leases))
async def use():
    async with client.lock_async("y") as lease:
        print("held", lease.token)
asyncio.run(use())
print(len(client._leases))
`, s), "canceled\n0\nheld 7\n0")
	if n := len(s.of("/v1/release")); n != 2 {
		t.Errorf("%d releases, want those of both locks", n)
	}
}

// TestPythonProgramThatEndsGivesItsLocksBack: also one that neither releases nor closes.
func TestPythonProgramThatEndsGivesItsLocksBack(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 60_000) })
	wantText(t, pythonRuns(t, `client.lock("x"); print("held")`, s), "held")
	if all := s.of("/v1/end"); len(all) != 1 || len(all[0].Leases) != 1 {
		t.Errorf("%+v, want the lease that was held at the end", all)
	}
}
