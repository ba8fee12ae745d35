// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/go-redis/v9"
)

// uncanceled is a context as the core makes it for a caller that cannot cancel.
type uncanceled struct{ context.Context }

func (uncanceled) EndsAtDeadline() {}

// TestDeadlineEndsACallThatCannotBeCanceled: the calls of a caller that cannot cancel run in the
// goroutine of the caller if the client ends its waits at deadlines. They end at the deadline
// whatever the client does with deadlines, at a server that never answers.
func TestDeadlineEndsACallThatCannotBeCanceled(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		for _, timeout := range []time.Duration{-2, -1} { // neither ends a read by itself; -2 sets no deadlines
			t.Run(fmt.Sprintf("ContextTimeoutEnabled=%t,ReadTimeout=%d", enabled, timeout), func(t *testing.T) {
				t.Parallel()
				silent, err := net.Listen("tcp", "127.0.0.1:0")
				must.OK(t, err)
				t.Cleanup(func() { _ = silent.Close() })
				client := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ContextTimeoutEnabled: enabled, ReadTimeout: timeout, WriteTimeout: timeout})
				t.Cleanup(func() { _ = client.Close() })
				g := New(client, "")
				if want := enabled && timeout == -1; g.timed != want {
					t.Errorf("timed is %v, want %v", g.timed, want)
				}
				ends, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				ctx := uncanceled{ends}
				var c rediscmd.Commands
				c.Add("LLEN", "x")
				if err := g.Send(ctx, &c); !errors.Is(err, driver.ErrUnknown) && !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("got %v, want an unknown outcome or an unavailable server", err)
				}
			})
		}
	}
}
