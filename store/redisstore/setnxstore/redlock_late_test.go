// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// openWired opens a session whose connections the test controls. Their scripts are known to the servers.
func (s three) openWired(t *testing.T) (driver.Session, []*wire) {
	t.Helper()
	ses, wires, _ := s.openAgain(t)
	return ses, wires
}

// openAgain is openWired. The function opens the session again.
func (s three) openAgain(t *testing.T) (driver.Session, []*wire, func() driver.Session) {
	t.Helper()
	var clients []redis.UniversalClient
	var wires []*wire
	for _, server := range s {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialTimeout: time.Second})
		t.Cleanup(func() { _ = client.Close() })
		w := &wire{}
		client.AddHook(w)
		clients, wires = append(clients, client), append(wires, w)
	}
	store, err := setnxstore.NewRedlock(clients, nil)
	must.OK(t, err)
	id := driver.NewSessionID()
	var ses driver.Session
	again := func() driver.Session {
		t.Helper()
		var err error
		ses, _, err = store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, Before: ses, TTL: long})
		must.OK(t, err)
		return ses
	}
	again()
	attempt(t, ses, claim(1000, "first"), driver.Granted)
	must.OK(t, servers.Await("all servers have it", func() bool { return !slices.Contains(s.values(t, "first"), "") }))
	withdraw(t, ses, 1000, "first", driver.WasGranted)
	must.OK(t, servers.Await("all servers are free", func() bool { return s.count(t, "first") == 0 }))
	return ses, wires, again
}

// count is how many servers have a key.
func (s three) count(t *testing.T, key string) (n int) {
	t.Helper()
	for _, v := range s.values(t, key) {
		if v != "" {
			n++
		}
	}
	return n
}

// await waits for an event.
func await(t *testing.T, what string, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: not after 30s", what)
	}
}

// TestRedlockLateUndoLeavesTheNextLease: an attempt fails while the reply of a server is open. That reply
// comes after the claim was attempted again, and what the first attempt withdraws then must not be the
// lock of the second.
func TestRedlockLateUndoLeavesTheNextLease(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires := all.openWired(t)
	wires[0].set(takeWords, refuse)
	wires[1].set(takeWords, refuse)
	taken, withdraw := wires[2].holdFirst()
	failed := make(chan error, 1)
	go func() {
		_, err := s.Attempt(t.Context(), claim(1, "x"))
		failed <- err
	}()
	await(t, "the third server has it", taken)
	if err := <-failed; !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("the first attempt: %v", err)
	}
	wires[0].clear()
	out, err := s.Attempt(t.Context(), claim(1, "x"))
	must.OK(t, err)
	withdraw(t)
	must.OK(t, servers.Await("the claim is granted", func() bool {
		if out.State != driver.Granted {
			out, err = s.Attempt(t.Context(), claim(1, "x"))
			must.OK(t, err)
		}
		return out.State == driver.Granted
	}))
	if n := all.count(t, "x"); n < 2 {
		t.Errorf("the lock is held, and %d servers have it", n)
	}
	wantBroken(t, s)
}

// TestRedlockAttemptWaitsForNoServerThatMayHaveIt: a reply was lost, and the server does not answer the
// withdrawal either. The other servers have decided.
func TestRedlockAttemptWaitsForNoServerThatMayHaveIt(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires := all.openWired(t)
	must.OK(t, all[2].Do("SET", "x", "foreign", "PX", 600_000).Err())
	end := make(chan struct{})
	defer close(end)
	var asked sync.Once
	silent := make(chan struct{})
	wires[1].set(takeWords, func(words []any, send func() error) error {
		err := loseReply(words, send)
		wires[1].set(releaseWords, func([]any, func() error) error {
			asked.Do(func() { close(silent) })
			<-end
			return errRefused
		})
		return err
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if out, err := s.Attempt(t.Context(), claim(1, "x")); err != nil || out.State != driver.Busy {
			t.Errorf("the attempt is %v, %v", out.State, err)
		}
	}()
	await(t, "the server is asked to withdraw", silent)
	await(t, "the attempt returns", done)
}

// TestRedlockAttemptEndsWithItsContext: a server granted a claim and does not answer the withdrawal.
func TestRedlockAttemptEndsWithItsContext(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires := all.openWired(t)
	for _, server := range all[1:] {
		must.OK(t, server.Do("SET", "x", "foreign", "PX", 600_000).Err())
	}
	seq := uint64(1)
	for delay := 10 * time.Millisecond; !endsWithItsContext(t, s, wires, seq, delay); delay *= 2 {
		if seq++; delay > 10*time.Second {
			t.Fatal("no attempt has waited for the withdrawal")
		}
	}
}

// endsWithItsContext makes an attempt whose first server answers earlier than the others by a delay. It reports whether
// the attempt waited for the withdrawal from that server, and otherwise made it in the background because the delay was
// too short.
func endsWithItsContext(t *testing.T, s driver.Session, wires []*wire, seq uint64, delay time.Duration) bool {
	t.Helper()
	const tombstone = 3 + 4 + 3 // the word that is 1 in the background
	end, taken, waits := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
	defer close(end)
	wires[0].set(takeWords, func(_ []any, send func() error) error {
		defer close(taken)
		wires[0].set(releaseWords, func(words []any, send func() error) error {
			if waits <- words[tombstone] == "0"; words[tombstone] != "0" {
				return send()
			}
			<-end
			return errRefused
		})
		return send()
	})
	for _, w := range wires[1:] {
		w.set(takeWords, func(_ []any, send func() error) error {
			<-taken
			time.Sleep(delay)
			return send()
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.Attempt(ctx, claim(seq, "x"))
	}()
	select {
	case waited := <-waits:
		if waited {
			cancel()
		}
		await(t, "the attempt returns", done)
		return waited
	case <-time.After(30 * time.Second):
		t.Fatal("the first server is not asked to withdraw within 30s")
	}
	return false
}

// TestRedlockVoteOfAnEndedSessionDoesNotCount: a server grants, loses its data and gets a new session
// while the attempt waits for another server.
func TestRedlockVoteOfAnEndedSessionDoesNotCount(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, wires := all.openWired(t)
	taken, asked, resume := make(chan struct{}), make(chan struct{}), make(chan struct{})
	wires[0].set(takeWords, refuse)
	wires[1].set(takeWords, func(_ []any, send func() error) error {
		close(asked)
		<-resume
		return send()
	})
	wires[2].set(takeWords, func(_ []any, send func() error) error {
		defer close(taken)
		return send()
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if out, err := s.Attempt(t.Context(), claim(1, "x")); err == nil && out.State == driver.Granted {
			t.Errorf("it is granted, and %d servers have it", all.count(t, "x"))
		}
	}()
	await(t, "the third server has it", taken)
	await(t, "the second server is asked", asked)
	wires[2].clear()
	must.OK(t, all[2].Do("FLUSHALL").Err())
	wantBroken(t, s) // it opens the session on the third server again
	close(resume)
	await(t, "the attempt returns", done)
	wires[0].clear()
	wires[1].clear()
	must.OK(t, servers.Await("the second server is free", func() bool { return all.values(t, "x")[1] == "" }))
	attempt(t, s, claim(1, "x"), driver.Granted)
	wantBroken(t, s)
}

// TestRedlockRenewalPutsBackNoClaimThatIsWithdrawn: a server that lost its data gets the claims again,
// some at once. One that is withdrawn before its time comes stays away.
func TestRedlockRenewalPutsBackNoClaimThatIsWithdrawn(t *testing.T) {
	t.Parallel()
	const atOnce = 8
	all := startThree(t)
	s, wires := all.openWired(t)
	name := func(seq uint64) string { return fmt.Sprint("lock-", seq) }
	for seq := uint64(1); seq <= atOnce+1; seq++ {
		attempt(t, s, claim(seq, name(seq)), driver.Granted)
		must.OK(t, servers.Await("all servers have it", func() bool { return all.count(t, name(seq)) == 3 }))
	}
	must.OK(t, all[2].Do("FLUSHALL").Err())
	sent, resume := make(chan string, atOnce+1), make(chan struct{})
	wires[2].set(takeWords, func(words []any, send func() error) error {
		sent <- words[6].(string)
		<-resume
		return send()
	})
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		if _, err := s.KeepAlive(t.Context()); err != nil {
			t.Errorf("the renewal: %v", err)
		}
	}()
	begun := map[string]bool{}
	for range atOnce {
		begun[<-sent] = true
	}
	for seq := uint64(1); seq <= atOnce+1; seq++ {
		if !begun[name(seq)] {
			withdraw(t, s, seq, name(seq), driver.WasGranted)
		}
	}
	close(resume)
	await(t, "the renewal", renewed)
	for seq := uint64(1); seq <= atOnce+1; seq++ {
		if has := all.values(t, name(seq))[2] != ""; has != begun[name(seq)] {
			t.Errorf("the third server has %s: %v, want %v", name(seq), has, begun[name(seq)])
		}
	}
}

// TestRedlockUnlockAfterALossIsReported: before a renewal has noticed that servers lost their data.
func TestRedlockUnlockAfterALossIsReported(t *testing.T) {
	t.Parallel()
	t.Run("a majority", func(t *testing.T) {
		t.Parallel()
		all := startThree(t)
		s := all.open(t)
		attempt(t, s, claim(1, "x"), driver.Granted)
		must.OK(t, servers.Await("all servers have it", func() bool { return all.count(t, "x") == 3 }))
		for _, server := range all[1:] {
			must.OK(t, server.Do("FLUSHALL").Err())
			must.OK(t, server.Do("SET", "x", "foreign", "PX", 600_000).Err())
		}
		if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); !errors.Is(err, driver.ErrGone) {
			t.Errorf("the withdrawal found it %v, %v", found, err)
		}
	})
	t.Run("one of two that have it", func(t *testing.T) {
		t.Parallel()
		all := startThree(t)
		s := all.open(t)
		must.OK(t, all[2].Do("SET", "x", "foreign", "PX", 600_000).Err())
		attempt(t, s, claim(1, "x"), driver.Granted)
		must.OK(t, all[1].Do("FLUSHALL").Err())
		withdraw(t, s, 1, "x", driver.WasBroken)
	})
}
