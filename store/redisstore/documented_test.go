// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// TestDocumented runs what docs/redis.md shows.
func TestDocumented(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	a, err := withGoRedis(addr)
	must.OK(t, err)
	b, err := withRueidis(addr)
	must.OK(t, err)
	redistest.Use(t, a, b)
	if err := healthy(t.Context(), a); err != nil {
		t.Error(err)
	}
	var warned []string
	evicting := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	c, err := withFindings(evicting.Addr, func(code string) { warned = append(warned, code) })
	must.OK(t, err)
	if err := openSession(t, c); err != nil || !slices.Equal(warned, []string{"eviction"}) {
		t.Errorf("warned of %v, %v; want eviction", warned, err)
	}
}

// TestDocumentedClients makes the clients of docs/recipes.md and docs/quorum.md.
func TestDocumentedClients(t *testing.T) {
	t.Parallel()
	urls := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		urls[name] = "redis://" + redistest.Start(t).Addr
	}
	one, err := byURL(t.Context(), urls["a"])
	must.OK(t, err)
	three, err := overThree(urls)
	must.OK(t, err)
	for _, c := range []*fencelock.Client{one, three} {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestQuorumStartsWithANodeDown: the client of docs/quorum.md starts, and is answered by the
// nodes, while a minority of them is down.
func TestQuorumStartsWithANodeDown(t *testing.T) {
	t.Parallel()
	down := redistest.Start(t)
	urls := map[string]string{"a": "redis://" + redistest.Start(t).Addr, "b": "redis://" + redistest.Start(t).Addr, "c": "redis://" + down.Addr}
	down.Kill()
	c, err := overThree(urls)
	must.OK(t, err)
	defer c.Close(context.Background())
	redistest.WaitFor(t, "the nodes answer, with their first grace", func() bool {
		_, err := c.Mutex("x").TryLock(t.Context())
		return errors.Is(err, fencelock.ErrGrace)
	})
}

func withGoRedis(addr string) (*redisstore.Store, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	return redisstore.New(client, &redisstore.Options{Namespace: "orders"})
}

func byURL(ctx context.Context, url string) (*fencelock.Client, error) {
	store, err := redisstore.Open(ctx, url, nil) // redis://localhost:6379, say
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, nil)
}

func overThree(urls map[string]string) (*fencelock.Client, error) {
	var nodes []quorum.Node
	for name, url := range urls { // the same names for the same servers in every process
		store, err := redisstore.FromURL(url, &redisstore.Options{Grace: true}) // asks nothing: one may be down
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, quorum.Node{Name: name, Store: store})
	}
	store, err := quorum.New(nodes, nil)
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
}

func withRueidis(addr string) (*rueidisstore.Store, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return rueidisstore.New(client, &rueidisstore.Options{Namespace: "orders"})
}

func withFindings(addr string, count func(code string)) (*redisstore.Store, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	return redisstore.New(client, &redisstore.Options{
		Namespace: "orders",
		Warn:      func(f driver.Finding) { count(f.Code); slog.Warn("locks", "finding", f.String()) },
		Accept:    []string{"clock"}, // known, and of no matter here
	})
}

func healthy(ctx context.Context, store *redisstore.Store) error {
	findings, err := store.Check(ctx)
	if err != nil {
		return err
	}
	for _, f := range findings {
		if f.Severity == driver.Danger {
			return fmt.Errorf("%v", f)
		}
	}
	return nil
}

// TestExamples runs the examples of the package on a server.
func TestExamples(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr
	servers.Example(t, Example, "REDIS_URL", url, "holding orders/42\n")
	servers.Example(t, ExampleNew, "REDIS_URL", url, "holding orders/42\n")
}
