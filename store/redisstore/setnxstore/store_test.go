// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// TestConformance checks the store clauses. Nearly all of it is waiting, so the cases are
// shared out to several servers: some stop theirs.
//
// The harness loses no data: a session that is not there any more has ended, whatever the
// reason.
func TestConformance(t *testing.T) {
	t.Parallel()
	var harnesses []func(*testing.T) *drivertest.Harness
	for range 6 {
		server := redistest.Start(t)
		harnesses = append(harnesses, func(t *testing.T) *drivertest.Harness {
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			t.Cleanup(func() { _ = client.Close() })
			return &drivertest.Harness{
				Open:  func() (driver.Store, error) { return setnxstore.New(client, nil) },
				Sever: server.Pause,
				TTL:   2 * time.Second,
				Slack: 500 * time.Millisecond,
				Soon:  20 * time.Second,
			}
		})
	}
	cases := drivertest.Cases()
	report := drivertest.RunCases(t, cases, harnesses...)
	if passed, _, _ := report.Counts(); len(report.Results) == len(cases) && passed < 45 {
		t.Errorf("only %d cases passed: something is skipped that should not be", passed)
	}
}

// The code of docs/sharing.md.

func withOthers(client redis.UniversalClient) (*fencelock.Client, error) {
	store, err := setnxstore.New(client, &setnxstore.Options{Key: "redlock:%s"})
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, nil) // Require: fencelock.Correctness would be rejected
}

func withRedlock(a, b, c redis.UniversalClient) (*fencelock.Client, error) {
	store, err := setnxstore.NewRedlock([]redis.UniversalClient{a, b, c}, nil)
	if err != nil {
		return nil, err
	}
	return fencelock.New(store, nil)
}

// TestDocumentedRedlock: the lock is on a majority of the servers.
func TestDocumentedRedlock(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	var clients []redis.UniversalClient
	for _, server := range all {
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		defer client.Close()
		clients = append(clients, client)
	}
	locks, err := withRedlock(clients[0], clients[1], clients[2])
	must.OK(t, err)
	defer locks.Close(context.Background())
	must.OK(t, locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error {
		if free := slices.Index(all.values(t, "x"), ""); free >= 0 && slices.Index(all.values(t, "x")[free+1:], "") >= 0 {
			t.Errorf("the values are %v", all.values(t, "x"))
		}
		return nil
	}))
}

// TestDocumented: the key of a lock is made of its name, and a foreign lock is shown by its value.
func TestDocumented(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	locks, err := withOthers(client)
	must.OK(t, err)
	defer locks.Close(context.Background())
	if text := locks.Guarantees().String(); !strings.Contains(text, "is reported at the next renewal") {
		t.Errorf("the guarantees do not name what a partial loss costs:\n%s", text)
	}
	err = locks.Do(t.Context(), "x", func(ctx context.Context, l *fencelock.Lease) error {
		if n, err := server.Do("EXISTS", "redlock:x").Int(); err != nil || n != 1 {
			t.Errorf("the key redlock:x is not there, %v", err)
		}
		if l.Token() != 0 {
			t.Errorf("the token is %v", l.Token())
		}
		return nil
	})
	must.OK(t, err)
	must.OK(t, server.Do("SET", "redlock:x", "of another library", "PX", 60_000).Err())
	_, err = locks.Mutex("x").TryLock(t.Context())
	if err == nil || !strings.Contains(err.Error(), "of another library") {
		t.Errorf("TryLock: %v", err)
	}
}

func TestCorrectnessIsRefused(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer client.Close()
	store, err := setnxstore.New(client, nil)
	must.OK(t, err)
	_, err = fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	if err == nil || !strings.Contains(err.Error(), "no fencing tokens") {
		t.Errorf("Require: Correctness: %v", err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "localhost:1"})
	defer client.Close()
	for _, key := range []string{"x", "%s:%s", "%d", "%s%"} {
		if _, err := setnxstore.New(client, &setnxstore.Options{Key: key}); err == nil {
			t.Errorf("the key %q was accepted", key)
		}
	}
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	servers.Example(t, Example, "REDIS_URL", "redis://"+redistest.Start(t).Addr, "holding orders/42\n")
}
