// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"sync/atomic"
	"testing"
)

// TestPythonLeaseEndsWithItsGrant: the token of a lease never changes. An answer with another one is about a later grant, and
// between the two another client may have held the lock.
func TestPythonLeaseEndsWithItsGrant(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any {
		if c.Path == "/v1/renew" {
			return object{"leases": []object{{"state": "held", "token": "8", "trusted_ms": 1_000_000}}}
		}
		return held(c, 1_000_000, 0)
	})
	wantText(t, pythonRuns(t, `
lease = client.lock("x")
print(lease.lost.wait(30), lease.token, lease.valid())
`, s), "True 7 False")
}

// TestPythonReleaseDuringTheAnswerOfARenewal: an answer that reports a move is taken while a release, or the end of the client, reads
// what is known of the lease. The lease counts as moved.
func TestPythonReleaseDuringTheAnswerOfARenewal(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 60_000) })
	pythonRuns(t, `
Client._renew = lambda self: None
class Answered(Lease):
    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name in ("_moved", "_asked"):  # the answer is taken right after the first of them is read
            self.__dict__.update(_moved=True, _asked=False)
        return value
def renewing(name):
    lease = client.lock(name)
    lease._asked, lease.__class__ = True, Answered
    return lease
renewing("x").release()
renewing("y")
client.close()
`, s)
	if all := s.of("/v1/release"); len(all) != 1 || !all[0].Moved {
		t.Errorf("%+v, want a release of a lease that may have moved", all)
	}
	if all := s.of("/v1/end"); len(all) != 1 || len(all[0].Leases) != 1 || !all[0].Leases[0].Moved {
		t.Errorf("%+v, want the end of a lease that may have moved", all)
	}
}

// TestPythonClientDoesNotSpinAtAServerThatIsCutOff: the server answers at once, and there may be no other one.
func TestPythonClientDoesNotSpinAtAServerThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any {
		if c.Path == "/v1/renew" {
			return object{"leases": []object{{"state": "held", "token": "7", "trusted_ms": 1_000_000, "elsewhere": true}}}
		}
		return held(c, 1_000_000, 0)
	})
	wantText(t, pythonRuns(t, `
slept, sleep = threading.Event(), time.sleep
def note(seconds):
    slept.set()
    sleep(seconds)
time.sleep = note
lease = client.lock("x")
print(slept.wait(30))
`, s), "True")
}

// TestPythonClientSendsNamesAsTheyAre: escapes make a name three times as long, and a call that names a hundred leases would be
// rejected.
func TestPythonClientSendsNamesAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 60_000) })
	pythonRuns(t, `client.lock("\u00f6" * 250).release()`, s)
	if all := s.of("/v1/acquire"); len(all) != 1 || len(all[0].Lock) != 500 || all[0].Size > 1000 {
		t.Errorf("%+v, want a body that is not much longer than its name", all)
	}
}

// TestPythonSessionIsMadeWithoutALock: a thread whose call is not answered does not keep another one from its own.
func TestPythonSessionIsMadeWithoutALock(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any { return held(c, 60_000, 60_000) })
	wantText(t, pythonRuns(t, `
begun, over, insist = threading.Event(), threading.Event(), client._insist
def slow(*args):
    if threading.current_thread() is waits and not begun.is_set():
        begun.set()
        print(over.wait(30))
    return insist(*args)
client._insist = slow
waits = threading.Thread(target=client.lock, args=("x",))
waits.start()
begun.wait()
client.lock("y").release()
over.set()
waits.join()
`, s), "True")
}

// TestPythonLockReturnsALeaseThatIsTrusted: an answer that comes when its trusted time is over, as to a process that was paused, is not a lease. The
// call is repeated with the same id, for as long as the client waits.
func TestPythonLockReturnsALeaseThatIsTrusted(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := newPythonServer(t, func(c *pythonCall) any {
		if c.Path == "/v1/acquire" && (c.Lock == "never" || asked.Add(1) == 1) {
			return held(c, 0, 0)
		}
		return held(c, 60_000, 60_000)
	})
	wantText(t, pythonRuns(t, `
lease = client.lock("x", wait=60, on_lost=lambda l: print("lost"))
print(lease.valid(), lease.lost.is_set())
try:
    client.lock("never", wait=0)
except Busy:
    print("Busy")
`, s), "True False\nBusy")
	if all := s.of("/v1/acquire"); len(all) != 3 || all[0].ID != all[1].ID {
		t.Errorf("%+v, want one acquisition that is repeated, and one that is not", all)
	}
	if all := s.of("/v1/release"); len(all) != 1 || all[0].Lock != "never" {
		t.Errorf("%+v, want a release of what is not used", all)
	}
}

// TestPythonReportsALeaseThatWasNotReleased: a server that does not have the lease, on a store that cannot carry it, has not released it.
func TestPythonReportsALeaseThatWasNotReleased(t *testing.T) {
	t.Parallel()
	s := newPythonServer(t, func(c *pythonCall) any {
		lost := object{"state": "lost", "lock": "y", "why": "it has another server"}
		switch c.Path {
		case "/v1/release":
			return lost
		case "/v1/end":
			return object{"leases": []object{lost}}
		}
		return held(c, 60_000, 60_000)
	})
	wantText(t, pythonRuns(t, `
import logging
logging.basicConfig(stream=sys.stdout, format="%(message)s")
try:
    with client.lock("x"):
        pass
except Lost as err:
    print(err)
client.lock("y")
client.close()
`, s), "lock 'x': it has another server\nlock 'y' was lost: it has another server")
}
