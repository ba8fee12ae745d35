// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// Listener is the part of a client adapter that listens.
type Listener interface {
	Listen(ctx context.Context, channel string, ready func(), message func(text string))
}

// CheckListener checks that an adapter says when it listens, the first time and
// after its connection was killed, hears what is published then, and leaves no
// subscription behind.
func CheckListener(t *testing.T, server *Server, l Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, heard := make(chan struct{}, 100), make(chan string, 100)
	l.Listen(ctx, "fencelock:c", func() { ready <- struct{}{} }, func(text string) { heard <- text })
	for _, text := range []string{"first", "second", "third"} {
		await(t, "it listens", ready)
		must(t, server.Do("PUBLISH", "fencelock:c", text).Err())
		if got := await(t, text, heard); got != text {
			t.Fatalf("heard %q, want %q", got, text)
		}
		must(t, server.Do("CLIENT", "KILL", "TYPE", "pubsub").Err())
	}
	await(t, "it listens again", ready)
	cancel()
	must(t, servers.Await("no subscription is left", func() bool {
		left, err := server.Do("PUBSUB", "CHANNELS").StringSlice()
		return err == nil && len(left) == 0
	}))
}

func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatalf("waited a minute unsuccessfully: %s", what)
	}
	return v
}
