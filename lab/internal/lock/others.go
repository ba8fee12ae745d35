// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/memcachestore"
	"github.com/fencelock/fencelock/store/sqlstore"
	"github.com/fencelock/fencelock/store/zkstore"
	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// openEtcd uses all members.
func openEtcd(s Spec) (Locks, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: s.Reach(), Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second})
	if err != nil {
		return nil, err
	}
	store, err := etcdstore.New(client, &etcdstore.Options{MaxTTL: s.MaxTTL})
	if err != nil {
		return nil, err
	}
	return newOurs(s, store, fencelock.Correctness, client.Close)
}

// openZooKeeper uses all servers.
func openZooKeeper(s Spec) (Locks, error) {
	store, err := zkstore.New(s.Reach(), &zkstore.Options{TickTime: servers.TickTime})
	if err != nil {
		return nil, err
	}
	return newOurs(s, store, fencelock.Correctness, store.Close)
}

// openPostgres uses one server, or a pooler before it.
func openPostgres(s Spec, opts *sqlstore.Options) (Locks, error) {
	return openSQL(s, "pgx", fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&connect_timeout=2", s.Reach()[0]), opts)
}

// openMySQL uses MariaDB or MySQL, which differ in the name of the variable for the isolation.
func openMySQL(s Spec, isolation string) (Locks, error) {
	return openSQL(s, "mysql", fmt.Sprintf("root@tcp(%s)/test?timeout=2s&%s=%%27READ-COMMITTED%%27&innodb_lock_wait_timeout=1", s.Reach()[0], isolation),
		&sqlstore.Options{Grace: true})
}

func openSQL(s Spec, driver, dsn string, opts *sqlstore.Options) (Locks, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	opts.MaxTTL = s.MaxTTL
	store, err := sqlstore.New(db, opts)
	if err != nil {
		return nil, err
	}
	need := fencelock.Efficiency
	if opts.Grace {
		need = fencelock.Correctness
	}
	return newOurs(s, store, need, store.Close, db.Close)
}

// openMemcached uses one server.
func openMemcached(s Spec) (Locks, error) {
	store, err := memcachestore.New(s.Reach()[0], nil)
	if err != nil {
		return nil, err
	}
	return newOurs(s, store, fencelock.Efficiency, store.Close)
}
