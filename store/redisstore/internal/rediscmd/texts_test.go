// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errNoScript = errors.New("NOSCRIPT No matching script")

// TestTextIsSentByOneCall: the calls that came in the meantime use the SHA.
func TestTextIsSentByOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts Texts
		var sent, done atomic.Int64
		var known atomic.Bool
		bySHA := func() ([]any, error) {
			if !known.Load() {
				return nil, errNoScript
			}
			return []any{"sha"}, nil
		}
		byText := func() ([]any, error) {
			sent.Add(1)
			time.Sleep(10 * time.Millisecond)
			known.Store(true)
			return []any{"text"}, nil
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := texts.Send(t.Context(), "a", bySHA, byText); err == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		if sent.Load() != 1 || done.Load() != 100 {
			t.Errorf("the text was sent %d times, and %d of 100 calls succeeded", sent.Load(), done.Load())
		}
	})
}

// TestTextOfADeadConnectionIsNotWaitedForLong: if the call that sends the text gets no answer, or fails, the others
// send it, too. A call whose context ends returns.
func TestTextOfADeadConnectionIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts Texts
		missing := func() ([]any, error) { return nil, errNoScript }
		silent := make(chan struct{})
		go texts.Send(t.Context(), "a", missing, func() ([]any, error) { <-silent; return nil, errors.New("EOF") })
		synctest.Wait()
		began := time.Now()
		reply, err := texts.Send(t.Context(), "a", missing, func() ([]any, error) { return []any{"text"}, nil })
		if err != nil || len(reply) != 1 || time.Since(began) > time.Second {
			t.Errorf("%v, %v after %v", reply, err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(10*time.Millisecond, cancel).Stop()
		if _, err := texts.Send(ctx, "a", missing, func() ([]any, error) { return nil, nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context ended: %v", err)
		}
		close(silent)
		synctest.Wait()
		if reply, err := texts.Send(t.Context(), "a", missing, func() ([]any, error) { return []any{"again"}, nil }); err != nil || reply[0] != "again" {
			t.Errorf("after a failure: %v, %v", reply, err)
		}
	})
}

// TestTextIsSentWhileTheContextLasts: the call that sends the text hangs, and another call has less
// time than it would wait for it.
func TestTextIsSentWhileTheContextLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts Texts
		hung := make(chan struct{})
		go func() {
			_, _ = texts.Send(context.Background(), "sha", nil, func() ([]any, error) { <-hung; return nil, nil })
		}()
		synctest.Wait()
		defer close(hung)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		sent := false
		if _, err := texts.Send(ctx, "sha", nil, func() ([]any, error) { sent = true; return nil, nil }); err != nil || !sent {
			t.Errorf("the text was sent: %t, %v", sent, err)
		}
	})
}
