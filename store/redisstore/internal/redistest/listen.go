// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// CheckListener checks that an adapter says when it listens, the first time and
// after its connection was killed, hears what is published then, and leaves no
// subscription behind.
func CheckListener(t *testing.T, server *Server, l rediscmd.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, heard := make(chan struct{}, 100), make(chan string, 100)
	l.Listen(ctx, rediscmd.Channel{Name: "fencelock:c"}, func() { ready <- struct{}{} }, func(text string) { heard <- text })
	for _, text := range []string{"first", "second", "third"} {
		await(t, "it listens", ready)
		must(t, server.Do("PUBLISH", "fencelock:c", text).Err())
		if got := await(t, text, heard); got != text {
			t.Fatalf("heard %q, want %q", got, text)
		}
		must(t, server.Do("CLIENT", "KILL", "TYPE", "pubsub").Err())
	}
	await(t, "it listens again", ready)
	checkMore(t, server, l)
	cancel()
	must(t, servers.Await("no subscription is left", func() bool {
		left, err := server.Do("PUBSUB", "CHANNELS").StringSlice()
		return err == nil && len(left) == 0
	}))
}

// checkMore lets a listener listen to more channels, over the same connection, and to one of them
// again.
func checkMore(t *testing.T, server *Server, l rediscmd.Client) {
	t.Helper()
	const more = 31 // buckets
	heard := make(chan string, 100)
	var stops []context.CancelFunc
	listen := func(i int) {
		ctx, stop := context.WithCancel(t.Context())
		stops = append(stops, stop)
		ready := make(chan struct{}, 100)
		l.Listen(ctx, rediscmd.Channel{Name: fmt.Sprint("fencelock:more", i)}, func() { ready <- struct{}{} }, func(text string) { heard <- text })
		await(t, "it listens to another channel", ready)
	}
	for i := range more {
		listen(i)
	}
	for i := range more {
		must(t, server.Do("PUBLISH", fmt.Sprint("fencelock:more", i), fmt.Sprint(i)).Err())
		if got := await(t, "a message", heard); got != fmt.Sprint(i) {
			t.Fatalf("heard %q, want %d", got, i)
		}
	}
	clients, err := server.Do("CLIENT", "LIST", "TYPE", "pubsub").Text()
	must(t, err)
	if n := strings.Count(clients, "id="); n != 1 {
		t.Errorf("%d connections listen, want one:\n%s", n, clients)
	}
	stops[0]()
	listen(0)
	must(t, server.Do("PUBLISH", "fencelock:more0", "again").Err())
	if got := await(t, "a message", heard); got != "again" {
		t.Fatalf("heard %q, want again", got)
	}
	for _, stop := range stops {
		stop()
	}
	must(t, servers.Await("the first subscription is left", func() bool {
		left, err := server.Do("PUBSUB", "CHANNELS").StringSlice()
		return err == nil && len(left) == 1
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
