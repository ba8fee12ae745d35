// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/shard"
	"github.com/fencelock/fencelock/store/sqlstore"
	"github.com/fencelock/fencelock/store/zkstore"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// kinds start a server each and return a function that opens a store on it, as each process
// does.
var kinds = map[string]func(t *testing.T) func() (driver.Store, error){
	"redis": func(t *testing.T) func() (driver.Store, error) {
		s := started(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
		return func() (driver.Store, error) {
			c := redis.NewClient(&redis.Options{Addr: s.Addr})
			t.Cleanup(func() { _ = c.Close() })
			return redisstore.New(c, &redisstore.Options{Warn: func(driver.Finding) {}})
		}
	},
	"etcd": func(t *testing.T) func() (driver.Store, error) {
		s := started(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1) })
		return func() (driver.Store, error) {
			c, err := clientv3.New(clientv3.Config{Endpoints: s.Addrs(), Logger: zap.NewNop()})
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = c.Close() })
			return etcdstore.New(c, nil)
		}
	},
	"zookeeper": func(t *testing.T) func() (driver.Store, error) {
		s := started(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(1) })
		return func() (driver.Store, error) {
			store, err := zkstore.New(s.Addrs(), &zkstore.Options{TickTime: servers.TickTime})
			if err == nil {
				t.Cleanup(func() { _ = store.Close() })
			}
			return store, err
		}
	},
	"postgres": func(t *testing.T) func() (driver.Store, error) {
		s := started(t, func() (*servers.Server, error) { return servers.Postgres() })
		db, err := sql.Open("pgx", fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.Addr))
		if err == nil {
			t.Cleanup(func() { _ = db.Close() })
			err = sqlstore.Migrate(t.Context(), db, nil)
		}
		must.OK(t, err)
		return func() (driver.Store, error) {
			store, err := sqlstore.New(db, nil)
			if err == nil {
				t.Cleanup(func() { _ = store.Close() })
			}
			return store, err
		}
	},
}

// started starts a server that ends with the test.
func started[S interface{ Stop() }](t *testing.T, start func() (S, error)) S {
	t.Helper()
	s, err := start()
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	t.Cleanup(s.Stop)
	return s
}

// process returns a client with the member a on a server, and with b if both is set.
func process(t *testing.T, open func() (driver.Store, error), other driver.Store, change shard.Change, both bool) (*fencelock.Client, *shard.Store) {
	t.Helper()
	a, err := open()
	must.OK(t, err)
	members := []shard.Member{{Name: "a", Store: a}}
	if both {
		members = append(members, shard.Member{Name: "b", Store: other, Change: change})
	}
	s, err := shard.New(members, nil)
	must.OK(t, err)
	c, err := fencelock.New(s, &fencelock.Options{StoreTimeout: 20 * time.Second}) // a server that has just started is slow
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c, s
}

// TestListsOnRealServers: the server keeps the lists apart, and names move when the last
// process with the earlier list has ended.
func TestListsOnRealServers(t *testing.T) {
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			open := start(t)
			other := memstore.New(nil)
			process := func(change shard.Change, both bool) (*fencelock.Client, *shard.Store) {
				return process(t, open, other, change, both)
			}
			old, _ := process(shard.Stays, false)
			joining, list := process(shard.Joins, true)
			next, _ := process(shard.Stays, true)
			moves := ""
			for i := 0; list.Owner(moves) != "b" || moves == ""; i++ {
				moves = fmt.Sprint("orders/", i)
			}
			try := func(c *fencelock.Client) error {
				l, err := c.Mutex(moves).TryLock(t.Context())
				for tries := 0; errors.Is(err, driver.ErrUnknown) && tries < 20; tries++ { // a server that is slow for a moment
					l, err = c.Mutex(moves).TryLock(t.Context())
				}
				if err == nil {
					err = l.Unlock(t.Context())
				}
				return err
			}
			must.OK(t, try(old))
			if err := try(joining); !errors.Is(err, fencelock.ErrUnavailable) || !strings.Contains(err.Error(), "still does (members a)") {
				t.Errorf("between two lists: %v", err)
			}
			if err := try(next); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "another list (members a)") {
				t.Errorf("the next list beside the earlier one: %v", err)
			}
			must.OK(t, old.Close(t.Context()))
			for who, c := range map[string]*fencelock.Client{"between two lists": joining, "the next list": next} {
				if err := try(c); err != nil {
					t.Errorf("%s, after the last process with the earlier one: %v", who, err)
				}
			}
			late, _ := process(shard.Stays, false)
			if err := try(late); !errors.Is(err, driver.ErrRefused) {
				t.Errorf("the earlier list afterwards: %v", err)
			}
		})
	}
}
