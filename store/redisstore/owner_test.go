// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
	"github.com/redis/go-redis/v9"
)

// TestCallersClient: the store never closes the caller's client, and leaves
// nothing behind on the server.
func TestCallersClient(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			server := redistest.Start(t)
			c := lib.open(t, login{Addr: server.Addr}, nil)
			t.Run("in use", func(t *testing.T) { redistest.Use(t, c, c) })
			if err := c.Store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := c.ping(t.Context()); err != nil {
				t.Errorf("the client is unusable after the store was closed: %v", err)
			}
			redistest.WaitFor(t, "no subscription is left", func() bool {
				left, err := server.Do("PUBSUB", "CHANNELS").StringSlice()
				return err == nil && len(left) == 0
			})
		})
	}
}

// TestOwnClient: a store that was opened closes its client.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, "redis://"+server.Addr+"/3?client_name=mine", &redisstore.Options{Namespace: "n"})
	t.Run("in use", func(t *testing.T) { redistest.Use(t, s, s) })
	if list, err := server.Do("CLIENT", "LIST").Text(); err != nil || !strings.Contains(list, "name=mine") {
		t.Errorf("no connection has the client's name: %v\n%s", err, list)
	}
	if space := server.Info("keyspace", "db3"); space == "" {
		t.Error("database 3 is empty")
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	_, err := s.Inspect(t.Context(), "x")
	if err == nil || !strings.Contains(err.Error(), "the client was closed") {
		t.Errorf("after close: got %v", err)
	}
	redistest.WaitFor(t, "no connection is left", func() bool {
		list, err := server.Do("CLIENT", "LIST").Text()
		return err == nil && !strings.Contains(list, "name=mine")
	})
}

func TestNewRefuses(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	if _, err := redisstore.New(ring, nil); err == nil || !strings.Contains(err.Error(), "two holders") {
		t.Errorf("a ring: got %v", err)
	}
	if _, err := redisstore.New(nil, nil); err == nil {
		t.Error("New takes no client")
	}
	if _, err := rueidisstore.New(nil, nil); err == nil {
		t.Error("rueidisstore.New takes no client")
	}
}

// TestLinks: a program links the client library it uses, and no other.
func TestLinks(t *testing.T) {
	for pkg, other := range map[string]string{".": "redis/rueidis", "./rueidisstore": "redis/go-redis"} {
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, out)
		}
		if strings.Contains(string(out), other) {
			t.Errorf("%s links %s", pkg, other)
		}
	}
}
