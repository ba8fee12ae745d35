// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/server"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// counter counts what a deployment keeps for the locks.
type counter func(ctx context.Context) (int64, error)

// counterOf returns the counter of a deployment by the servers that it has.
func counterOf(d deployment.Deployment, r *deployment.Rig) (counter, error) {
	if _, ok := r.Servers[0].(*server.Redis); ok {
		return func(ctx context.Context) (int64, error) { return countRedis(ctx, r.Servers) }, nil
	}
	switch d.Lock {
	case "etcd":
		return func(ctx context.Context) (int64, error) { return countEtcd(ctx, r.Addrs) }, nil
	case "zookeeper":
		return func(context.Context) (int64, error) { return countZooKeeper(r.Addrs) }, nil
	case "postgres":
		return sqlCounter("pgx", fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", r.Addrs[0]))
	case "mariadb", "mysql":
		return sqlCounter("mysql", fmt.Sprintf("root@tcp(%s)/test", r.Addrs[0]))
	case "memcached":
		return func(context.Context) (int64, error) { return countMemcached(r.Addrs[0]) }, nil
	}
	return nil, fmt.Errorf("it is unknown how to count the entries of %s", d.Name)
}

// countRedis adds up the keys and the elements in them, on all masters.
func countRedis(ctx context.Context, all []server.Server) (n int64, err error) {
	for _, s := range all {
		one, err := countOne(ctx, s.(*server.Redis))
		if err != nil {
			return 0, err
		}
		n += one
	}
	return n, nil
}

func countOne(ctx context.Context, s *server.Redis) (n int64, err error) {
	switch role := s.Node().Info("replication", "role"); role {
	case "master":
	case "slave":
		return 0, nil
	default: // it does not answer: what it has is unknown
		return 0, fmt.Errorf("%s cannot be counted: its role is %q", s.Addr, role)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	defer c.Close()
	for keys := c.Scan(ctx, 0, "*", 1000).Iterator(); ; {
		if !keys.Next(ctx) {
			return n, errors.Join(err, keys.Err())
		}
		one, failed := elements(ctx, c, keys.Val())
		n, err = n+one, errors.Join(err, failed)
	}
}

// elements counts a key and what is in it. Tickets are a supply that is filled up, and the counters of
// slots are of a fixed number.
func elements(ctx context.Context, c *redis.Client, key string) (int64, error) {
	switch {
	case strings.HasSuffix(key, ":t"):
		return 0, nil
	case strings.HasSuffix(key, ":s"):
		n, err := c.ZCard(ctx, key).Result()
		return n, err
	case strings.Contains(key, "}:l:"):
		n, err := c.LLen(ctx, key).Result()
		return n, err
	}
	fields, err := c.HKeys(ctx, key).Result()
	n := int64(0)
	for _, f := range fields {
		if !strings.HasPrefix(f, "c") {
			n++
		}
	}
	return n, err
}

// countEtcd adds up keys and leases.
func countEtcd(ctx context.Context, addrs []string) (int64, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	keys, err := c.Get(ctx, etcdstore.DefaultNamespace, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	leases, err := c.Leases(ctx)
	if err != nil {
		return 0, err
	}
	return keys.Count + int64(len(leases.Leases)), nil
}

// countZooKeeper adds up nodes and watches. The 256 nodes that spread the locks are made when they
// are needed and stay.
func countZooKeeper(addrs []string) (int64, error) {
	c, _, err := zk.Connect(addrs, 5*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	spread, _, err := c.Children("/fencelock/l")
	if err != nil {
		return 0, err
	}
	all := int64(0)
	for _, under := range append([]string{"s"}, prefixed("l/", spread)...) {
		below, err := countBelow(c, "/fencelock/"+under)
		if err != nil {
			return 0, err
		}
		all += below
	}
	return all, nil
}

func prefixed(prefix string, names []string) (all []string) {
	for _, n := range names {
		all = append(all, prefix+n)
	}
	return all
}

// countBelow counts the nodes below one. A node may go during that.
func countBelow(c *zk.Conn, path string) (n int64, err error) {
	children, _, err := c.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, nil
	}
	for _, child := range children {
		below, failed := countBelow(c, path+"/"+child)
		n, err = n+1+below, errors.Join(err, failed)
	}
	return n, err
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// microseconds is the clock of a database as its rows have it.
var microseconds = map[string]string{
	"pgx":   "(extract(epoch FROM clock_timestamp()) * 1000000)",
	"mysql": "(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000)",
}

// sqlCounter counts rows. The row of a lock that is free stays for a minute, and until the next sweep: such rows
// count if they are older than three minutes.
func sqlCounter(driver, dsn string) (counter, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(0) // a restarted server must not be asked on an old connection
	query := fmt.Sprintf("SELECT (SELECT count(*) FROM %[1]ssession) + (SELECT count(*) FROM %[1]slock"+
		" WHERE holder IS NOT NULL OR grants IS NOT NULL OR queue IS NOT NULL OR marks IS NOT NULL OR touched < %[2]s - 180000000)", "fencelock_", microseconds[driver])
	return func(ctx context.Context) (int64, error) {
		var n int64
		err := db.QueryRowContext(ctx, query).Scan(&n)
		return n, err
	}, nil
}

// countMemcached counts items. The server removes an item that has ended when it comes by.
func countMemcached(addr string) (int64, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	m := &servers.MemcachedServer{Server: &servers.Server{Addr: net.JoinHostPort(host, port)}}
	stats, err := m.Stats()
	return stats["curr_items"], err
}
