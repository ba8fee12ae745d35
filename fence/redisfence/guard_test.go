// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/redisfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

var (
	get = redisfence.NewScript(`return redis.call('GET', KEYS[1])`)
	set = redisfence.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
)

// steps makes every command a step of fencetest.
type steps struct{}

func (steps) DialHook(next redis.DialHook) redis.DialHook { return next }

func (steps) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		fencetest.Step(ctx)
		return next(ctx, cmd)
	}
}

func (steps) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// text is a reply as the cases want it: nothing is empty.
func text(reply any, err error) (string, error) {
	if s, ok := reply.(string); ok {
		return s, err
	}
	return "", err
}

// dialing makes another client of the same server or servers.
type dialing func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) redis.UniversalClient

// value is a key behind a guard, with the name of its lock. Another process has
// the client second.
func value(client, second redis.UniversalClient, other dialing, lock string) (*fencetest.Value, error) {
	g, err := redisfence.New(client, lock, lock)
	if err != nil {
		return nil, err
	}
	keys := []string{lock}
	return &fencetest.Value{
		Reopen: func(context.Context) (*fencetest.Value, error) { return value(second, client, other, lock) },
		Enter:  func(ctx context.Context) (string, error) { return text(g.Run(ctx, get, keys)) },
		Write:  func(ctx context.Context, v string) error { _, err := g.Run(ctx, set, keys, v); return err },
		Read: func(ctx context.Context) (string, error) {
			v, err := client.Get(ctx, lock).Result()
			if errors.Is(err, redis.Nil) {
				return "", nil
			}
			return v, err
		},
		LoseReply: func(ctx context.Context, v string) error {
			var d fencetest.Dialer
			lossy := other(d.DialContext)
			defer lossy.Close()
			g, err := redisfence.New(lossy, lock, lock)
			if err != nil {
				return err
			}
			if err := g.Raise(ctx); err != nil { // it is connected now
				return err
			}
			d.LoseNextReply(ctx)
			_, err = g.Run(ctx, set, keys, v)
			return err
		},
	}, nil
}

// at makes clients of one server, with the defaults of go-redis.
func at(addr string) dialing {
	return func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: addr, Dialer: dial, PoolSize: 1})
	}
}

func connect(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr})
	client.AddHook(steps{})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// start starts a server that ends with the test.
func start(t *testing.T, f servers.Flavor, args ...string) *servers.RedisServer {
	t.Helper()
	return servers.Test(t, func() (*servers.RedisServer, error) { return f.Start(args...) })
}

func TestGuard(t *testing.T) {
	for _, f := range servers.Flavors {
		t.Run(string(f), func(t *testing.T) {
			prove(t, map[servers.Flavor]string{servers.Redis: "Redis", servers.Valkey: "Valkey"}[f],
				start(t, f, "--appendonly", "yes", "--appendfsync", "always"))
		})
	}
}

// prove runs all cases on a server, and counts round trips.
func prove(t *testing.T, name string, server *servers.RedisServer) {
	client, second := connect(t, server.Addr), connect(t, server.Addr)
	fencetest.Run(t, &fencetest.Harness{Name: name,
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			return value(client, second, at(server.Addr), lock)
		},
		Restart: func(context.Context) error { return server.Restart() },
	})
	bare := func(ctx context.Context) error {
		_, err := client.Get(ctx, "bare").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		return client.Set(ctx, "bare", "x", 0).Err()
	}
	v, err := value(client, second, at(server.Addr), "counted")
	must.OK(t, err)
	guarded := func(ctx context.Context) error {
		_, err := v.Enter(ctx)
		return errors.Join(err, v.Write(ctx, "x"))
	}
	ctx := fence.With(t.Context(), fence.Mark{Lock: "counted", Token: 512})
	g, err := redisfence.New(client, "counted", "counted")
	must.OK(t, err)
	// Two scripts of this test alone: the server must get their text.
	first, err := fencetest.Trips(ctx, func(ctx context.Context) error {
		for _, body := range []string{"return 1 -- " + name, "return 2 -- " + name} {
			if _, err := g.Run(ctx, redisfence.NewScript(body), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if first != 4 || err != nil {
		t.Errorf("two scripts that are new to the server: %d round trips, %v, want 4", first, err)
	}
	if err := guarded(ctx); err != nil { // the server knows these now
		t.Fatal(err)
	}
	with, err := fencetest.Trips(ctx, guarded)
	must.OK(t, err)
	without, err := fencetest.Trips(ctx, bare)
	if err != nil || without != 2 {
		t.Fatalf("a bare read and write: %d round trips, %v", without, err)
	}
	t.Logf("fencetest: %s adds %d round trips", name, with-without)
	if with > without {
		t.Errorf("%d round trips with a guard, %d without", with, without)
	}
}

// TestClusterGuard: what a restart is to one server, a failover is to a cluster.
func TestClusterGuard(t *testing.T) {
	cluster := servers.Test(t, func() (*servers.RedisCluster, error) { return servers.Redis.StartCluster(10 * time.Minute) })
	other := func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: dial})
	}
	connect := func() *redis.ClusterClient {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
		t.Cleanup(func() { _ = client.Close() })
		client.AddHook(steps{})
		return client
	}
	client, second := connect(), connect()
	last := ""
	fencetest.Run(t, &fencetest.Harness{Name: "Redis Cluster",
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			last = lock
			return value(client, second, other, lock)
		},
		Restart: func(context.Context) error {
			_, owner, err := cluster.Find("*" + last + "*")
			if err != nil {
				return err
			}
			_, err = cluster.Failover(owner)
			return err
		}})
}

func TestRefusalNamesTheHolder(t *testing.T) {
	client := connect(t, start(t, servers.Redis).Addr)
	g, err := redisfence.New(client, "{orders}:42", "a")
	must.OK(t, err)
	newer := fence.Mark{Lock: "a", Token: 768, Holder: "ann@host:1"}
	must.OK(t, g.Raise(fence.With(t.Context(), newer)))
	var stale *fence.StaleError
	if err := g.Raise(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})); !errors.As(err, &stale) || stale.Newer != newer {
		t.Errorf("got %v", err)
	}
	// A policy that evicts what expires must leave it alone.
	if ttl, err := client.TTL(t.Context(), "{orders}:42:fence").Result(); ttl != -1 || err != nil {
		t.Errorf("the fence lives for %v, %v, want forever", ttl, err)
	}
}

// TestScriptsSeeTheirOwnArguments, and what they return comes back.
func TestScriptsSeeTheirOwnArguments(t *testing.T) {
	client := connect(t, start(t, servers.Redis).Addr)
	g, err := redisfence.New(client, "{o}1", "a")
	must.OK(t, err)
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})
	got, err := text(g.Run(ctx, redisfence.NewScript(`return table.concat(KEYS, ',') .. ' ' .. table.concat(ARGV, ',')`), []string{"{o}1", "{o}2"}, "x", 7))
	if want := "{o}1,{o}2 x,7"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if reply, err := g.Run(ctx, redisfence.NewScript("return 0"), nil); reply != int64(0) || err != nil {
		t.Errorf("a script that returns zero: %v, %v", reply, err)
	}
	if reply, err := g.Run(ctx, redisfence.NewScript("local x = 1"), nil); reply != nil || err != nil {
		t.Errorf("a script that returns nothing: %v, %v", reply, err)
	}
	for _, body := range []string{
		"return redis.call('INCR', 'x', 'y')",
		"return redis.pcall('INCR', 'x', 'y')", // an error that is returned and not raised
		"return redis.error_reply('MINE no')",
	} {
		if reply, err := g.Run(ctx, redisfence.NewScript(body), nil); err == nil || errors.Is(err, fence.ErrStale) || reply != nil {
			t.Errorf("a script that fails, %s: got %v, %v", body, reply, err)
		} else if strings.Contains(body, "MINE") && !redis.HasErrorPrefix(errors.Unwrap(err), "MINE") {
			t.Errorf("the script's own error is %v", err)
		}
	}
}

func TestKeysStayInOneSlot(t *testing.T) {
	client := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no server is asked")
	}})
	defer client.Close()
	for _, key := range []string{"", "a{b", "a}b", "{}a", "}{"} {
		if _, err := redisfence.New(client, key, "a"); err == nil {
			t.Errorf("a guard for %q: no error", key)
		}
	}
	g, err := redisfence.New(client, "orders:42", "a")
	must.OK(t, err)
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 1})
	for key, same := range map[string]bool{"orders:42": true, "{orders:42}:lines": true, "orders:43": false, "{orders}:42": false} {
		_, err := g.Run(ctx, get, []string{key})
		if refused := strings.Contains(err.Error(), "hash tag"); refused == same {
			t.Errorf("%s: got %v", key, err)
		}
	}
	if _, err := redisfence.New(nil, "a", "a"); err == nil {
		t.Error("no client: no error")
	}
	if _, err := redisfence.New(client, "a", ""); err == nil {
		t.Error("no lock: no error")
	}
}
