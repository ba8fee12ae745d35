// SPDX-License-Identifier: Apache-2.0

package callctx

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// TestCallEnds: the context of a call ends after the call timeout, with the caller,
// and with what the call belongs to, whichever is first, shared or not.
func TestCallEnds(t *testing.T) {
	for name, cancelable := range map[string]bool{"shared": false, "own": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, end := context.WithCancel(context.Background())
				m := New(parent, 8*time.Second)
				caller := context.WithValue(context.Background(), key{}, "value")
				if cancelable {
					var cancel context.CancelFunc
					caller, cancel = context.WithCancel(caller)
					defer cancel()
				}
				call, over := m.Context(caller)
				defer over()
				if _, marked := call.(interface{ EndsAtDeadline() }); marked == cancelable {
					t.Errorf("it is marked as ending at its deadline: %v", marked)
				}
				if call.Value(key{}) != "value" {
					t.Error("the caller's values are lost")
				}
				began := time.Now()
				<-call.Done()
				if took := time.Since(began); took != m.timeout || !errors.Is(call.Err(), context.DeadlineExceeded) {
					t.Errorf("it ended after %v with %v, want %v and the deadline", took, call.Err(), m.timeout)
				}
				call, over = m.Context(caller)
				defer over()
				end()
				<-call.Done()
			})
		})
	}
}

// TestCallsOfCallersThatCannotCancelShareAContext: calls that begin together share a context, later ones have as
// much time, less an eighth at most.
func TestCallsOfCallersThatCannotCancelShareAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(context.Background(), 8*time.Second)
		first, _ := m.Context(context.Background())
		for range 20 {
			time.Sleep(300 * time.Millisecond)
			call, _ := m.Context(context.Background())
			deadline, _ := call.Deadline()
			if left := time.Until(deadline); left > m.timeout || left < m.timeout*7/8 {
				t.Fatalf("a call has %v", left)
			}
		}
		second, _ := m.Context(context.Background())
		if d1, _ := first.Deadline(); !d1.Before(func() time.Time { d, _ := second.Deadline(); return d }()) {
			t.Error("the first context was given out forever")
		}
	})
}
