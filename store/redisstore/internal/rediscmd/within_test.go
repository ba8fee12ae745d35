// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// TestTooManyAbandonedCallsSendNoMore: while many calls without a caller are on their way none is sent, and the next is sent as
// soon as one of them has ended.
func TestTooManyAbandonedCallsSendNoMore(t *testing.T) {
	var a Abandoned
	begun, end := make(chan struct{}), make(chan struct{})
	for range maxAbandoned {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := BoundedWithin(ctx, &a, func() (int, error) { begun <- struct{}{}; <-end; return 0, nil })
			done <- err
		}()
		<-begun
		cancel()
		if err := <-done; !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("an abandoned call: %v, want an unknown outcome", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := BoundedWithin(ctx, &a, func() (int, error) { t.Error("it was sent"); return 0, nil })
		result <- err
	}()
	cancel()
	if err := <-result; !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a call that was not sent: %v, want that nothing was done", err)
	}
	go func() {
		v, err := BoundedWithin(t.Context(), &a, func() (int, error) { return 7, nil })
		if v != 7 {
			t.Errorf("got %d", v)
		}
		result <- err
	}()
	end <- struct{}{}
	if err := <-result; err != nil {
		t.Error(err)
	}
	close(end)
}
