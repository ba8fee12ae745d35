// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/redis/go-redis/v9"
)

// TestCanceledCall: a caller that cancels a call does not wait for a server that does not
// answer, whatever the client does with deadlines. A read of these clients never ends by
// itself, so that nothing else can end the call.
func TestCanceledCall(t *testing.T) {
	t.Parallel()
	for _, deadlines := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled=%t", deadlines), func(t *testing.T) {
			t.Parallel()
			for what, call := range map[string]func(context.Context, Store) error{
				"Inspect": func(ctx context.Context, s Store) error { _, err := s.Inspect(ctx, "x"); return err },
				"List":    func(ctx context.Context, s Store) error { _, err := s.List(ctx, driver.ListQuery{Max: 1}); return err },
			} {
				// A server of its own: the pool may keep the connection that a canceled call began to dial, and
				// the next call would make none.
				addr, asked := deaf(t)
				client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: deadlines, ReadTimeout: -1})
				t.Cleanup(func() { _ = client.Close() })
				store, err := newGoRedis(client, nil)
				must.OK(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- call(ctx, store) }()
				<-asked
				cancel()
				select {
				case err := <-done:
					if !errors.Is(err, driver.ErrUnknown) || !errors.Is(err, context.Canceled) {
						t.Errorf("%s: got %v, want an unknown outcome of a canceled call", what, err)
					}
				case <-time.After(slack):
					t.Fatalf("%s did not return when it was canceled", what)
				}
			}
		})
	}
}

// deaf starts a server that reads and never answers. It sends to asked for each connection.
func deaf(t *testing.T) (addr string, asked <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	heard := make(chan struct{}, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close() // when the test ends
			heard <- struct{}{}
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), heard
}
