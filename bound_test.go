// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// TestBoundEnds: the context of a call ends after the call timeout, with the caller,
// and with what the call belongs to, whichever is first, shared or not.
func TestBoundEnds(t *testing.T) {
	for name, cancels := range map[string]bool{"shared": false, "own": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, end := context.WithCancel(context.Background())
				b := &bound{parent: parent, timeout: 8 * time.Second}
				caller := context.WithValue(context.Background(), key{}, "value")
				if cancels {
					var cancel context.CancelFunc
					caller, cancel = context.WithCancel(caller)
					defer cancel()
				}
				call, over := b.context(caller)
				defer over()
				if call.Value(key{}) != "value" {
					t.Error("the caller's values are lost")
				}
				began := time.Now()
				<-call.Done()
				if took := time.Since(began); took != b.timeout || !errors.Is(call.Err(), context.DeadlineExceeded) {
					t.Errorf("it ended after %v with %v, want %v and the deadline", took, call.Err(), b.timeout)
				}
				call, over = b.context(caller)
				defer over()
				end()
				<-call.Done()
			})
		})
	}
}

// TestBoundIsShared: calls that begin together share a context, later ones have as
// much time, less an eighth at most.
func TestBoundIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{parent: context.Background(), timeout: 8 * time.Second}
		first, _ := b.context(context.Background())
		for range 20 {
			time.Sleep(300 * time.Millisecond)
			call, _ := b.context(context.Background())
			deadline, _ := call.Deadline()
			if left := time.Until(deadline); left > b.timeout || left < b.timeout*7/8 {
				t.Fatalf("a call has %v", left)
			}
		}
		second, _ := b.context(context.Background())
		if d1, _ := first.Deadline(); !d1.Before(func() time.Time { d, _ := second.Deadline(); return d }()) {
			t.Error("the first context was given out for ever")
		}
	})
}
