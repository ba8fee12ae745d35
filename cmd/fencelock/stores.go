// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	_ "github.com/fencelock/fencelock/store/etcdstore" // each registers its schemes
	_ "github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	_ "github.com/fencelock/fencelock/store/memcachestore"
	_ "github.com/fencelock/fencelock/store/memstore"
	_ "github.com/fencelock/fencelock/store/redisstore"
	_ "github.com/fencelock/fencelock/store/redisstore/redisquorum"
	_ "github.com/fencelock/fencelock/store/redisstore/redissonstore"
	_ "github.com/fencelock/fencelock/store/redisstore/setnxstore"
	_ "github.com/fencelock/fencelock/store/sqlstore"
	_ "github.com/fencelock/fencelock/store/zkstore"
	_ "github.com/fencelock/fencelock/store/zkstore/curatorstore"
	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// storeKind is help about the URLs of a store. Opening them is up to the stores.
type storeKind struct {
	schemes []string
	// form is what a URL looks like, for help; note is one line about it.
	form, note string
	// grace: the store has the parameter.
	grace bool
}

// opened is a store that was opened.
type opened struct {
	driver.OpenedStore
	// graceFix says how to make it keep locks over a loss of data, if it can.
	graceFix string
}

// storeKinds are in the order of help.
var storeKinds = []*storeKind{{
	schemes: driver.Variants("curator"),
	form:    "curator://[user:password@]host[:port][,host[:port]...][/path]",
	note: "ZooKeeper, for locks that Apache Curator, zk.Lock or kazoo take at the same path;\n" +
		"      recipe=readwrite or recipe=latch for other kinds; with curators over TLS",
}, {
	schemes: driver.Variants("etcd"),
	form:    "etcd://[user:password@]host[:port][,host[:port]...][/namespace]",
	note:    "etcd 3.4 or later; name all members; with etcds over TLS",
}, {
	schemes: driver.Variants("etcd-concurrency"),
	form:    "etcd-concurrency://[user:password@]host[:port][,host[:port]...]",
	note: "the locks of etcd's package concurrency and of etcdctl lock; prefix=TEXT begins\n" +
		"      the keys; with etcds-concurrency over TLS",
}, {
	schemes: driver.Variants("mem"),
	form:    "mem://",
	note:    "the memory of this process, for trying out: it does not exclude other processes",
	grace:   true,
}, {
	schemes: driver.Variants("memcached"),
	form:    "memcached://host[:port]",
	note:    "for efficiency only: no fencing tokens; with memcacheds over TLS",
}, {
	schemes: driver.Variants("mysql"),
	form:    "mysql://[user[:password]@]host[:port]/database",
	note: "MariaDB 10.6 or later, MySQL 8.0.21 or later; the namespace begins the names of the\n" +
		"      tables; migrate=true creates them; over TLS with tls=true",
	grace: true,
}, {
	schemes: driver.Variants("postgres"),
	form:    "postgres://[user[:password]@]host[:port][,host[:port]...][/database]",
	note: "PostgreSQL 13 or later; the namespace begins the names of the tables; migrate=true\n" +
		"      creates them; over TLS with sslmode=verify-full",
	grace: true,
}, {
	schemes: driver.Variants("quorum"),
	form:    "quorum://[user[:password]@]host[:port],host[:port],host[:port][,...][/database]",
	note: "several independent Redis servers, a majority of which decides; write the same list\n" +
		"      in every process; use it with grace=true; with quorums over TLS",
	grace: true,
}, {
	schemes: driver.Variants("redis"),
	form: `redis://[user[:password]@]host[:port][/database]
redis-sentinel://host[:port][,host[:port]...]/master[/database]
redis-cluster://host[:port][,host[:port]...]`,
	note: "Redis 7.0 or later, and Valkey: valkey may stand for redis; with rediss or valkeys\n" +
		"      over TLS",
	grace: true,
}, {
	schemes: driver.Variants("redisson"),
	form:    "redisson://[user[:password]@]host[:port][/database]",
	note: "the locks of Java services on Redisson, for efficiency only; read_write=true for\n" +
		"      RReadWriteLocks; also redisson-sentinel and redisson-cluster; with redissons\n" +
		"      over TLS",
}, {
	schemes: driver.Variants("setnx"),
	form:    "setnx://[user[:password]@]host[:port][,host[:port]...][/database]",
	note: "the locks of redsync and others that SET a key with NX, for efficiency only;\n" +
		"      several hosts are the servers of a Redlock; prefix=TEXT begins the keys; also\n" +
		"      setnx-sentinel and setnx-cluster; with setnxs over TLS",
}, {
	schemes: driver.Variants("zk"),
	form:    "zk://[user:password@]host[:port][,host[:port]...][/root]",
	note: "ZooKeeper 3.5 or later; name all servers; the namespace is the root node;\n" +
		"      with zks over TLS",
}}

// openStore opens the store at a URL. No error shows the URL: it may hold a
// password.
func openStore(ctx context.Context, raw, namespace string, opts driver.OpenOptions) (*opened, error) {
	scheme, _, ok := strings.Cut(raw, "://")
	if raw == "" {
		return nil, usage("which store? Set FENCELOCK_STORE or give --store, for example redis://localhost:6379 (fencelock help stores)")
	}
	e := storeKindOf(scheme)
	switch {
	case !ok:
		return nil, usage("the store's URL has no scheme; write it as redis://localhost:6379 (fencelock help stores)")
	case e == nil:
		// The scheme is shown only if it looks like one: without its //, what stands
		// before the first :// may hold a password.
		if !schemeForm.MatchString(scheme) {
			return nil, usage("the store's URL does not begin with a known scheme; fencelock help stores lists them")
		}
		hint := cmp.Or(didYouMean(scheme+"://", schemes()...), " (redis://localhost:6379 is one)")
		return nil, usage("unknown scheme %s:// in the store's URL%s; fencelock help stores lists them", scheme, hint)
	}
	store, err := driver.OpenStore(ctx, withNamespace(raw, namespace), opts)
	if err != nil {
		return nil, err
	}
	o := &opened{OpenedStore: store}
	if e.grace {
		o.graceFix = "add grace=true to the store's URL, for every client that shares the namespace"
	}
	return o, nil
}

func storeKindOf(scheme string) *storeKind {
	for _, e := range storeKinds {
		if slices.Contains(e.schemes, scheme) {
			return e
		}
	}
	return nil
}

// schemeForm is what a scheme can look like.
var schemeForm = regexp.MustCompile(`^[a-z][a-z-]{0,30}$`)

// schemes lists all that can be used, as they begin a URL.
func schemes() (list []string) {
	for _, e := range storeKinds {
		for _, s := range e.schemes {
			list = append(list, s+"://")
		}
	}
	return list
}

// withNamespace sets the namespace of a URL, unless it is empty.
func withNamespace(raw, namespace string) string {
	if namespace == "" {
		return raw
	}
	base, query, _ := strings.Cut(raw, "?")
	pairs := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		return pair == "" || strings.HasPrefix(pair, "namespace=")
	})
	return base + "?" + strings.Join(append(pairs, "namespace="+url.QueryEscape(namespace)), "&")
}

// warning is a finding for the user. Notes are for doctor, but those that take a
// warning back.
func warning(f driver.Finding) (text string, show bool) {
	return f.String(), f.Severity != driver.Note || f.Code == "back" || f.Code == "counted"
}

// storesHelp explains the URLs.
func storesHelp() string {
	var b strings.Builder
	b.WriteString(`A store is where locks are kept: a server that all clients reach. It is a URL.

`)
	for _, e := range storeKinds {
		fmt.Fprintf(&b, "  %s\n      %s\n", strings.ReplaceAll(e.form, "\n", "\n  "), e.note)
	}
	b.WriteString(`
It is taken from the first of these that is there:

  --store URL              every user of the machine can read a command line:
                           no passwords here
  FENCELOCK_STORE          the environment
  FENCELOCK_CONFIG         a file with a line "store = URL"; by default
                           fencelock/config in the user's configuration folder
                           ($XDG_CONFIG_HOME or ~/.config)

Parameters follow a ? and are joined by &. All processes that share locks must use the
same; the store rejects a process that differs, and a parameter that it does not support.
Each store has more parameters, which are in its documentation.

  namespace=NAME   locks of different namespaces are independent
  grace=true       after a crash or failover of the server no new lock is granted
                   until every earlier lease must have ended, which takes as
                   long as max_ttl (Redis, quorum, databases)
  max_ttl=15s      the longest --ttl of any process; the same in all of them
                   (not memcached)
  buckets=N        over how many slots of a cluster names are spread (Redis)
  migrate=true     create the tables if they are missing (databases)
  accept=CODE,...  findings of fencelock doctor to accept: without it a server on
                   which locks are unsafe is rejected (Redis, quorum, databases; the
                   other stores reject no server)
`)
	return b.String()
}

// silent is where the drivers of the servers write. They log on stderr by themselves,
// whatever -q says and over the screen of top; all that matters in it comes back as an
// error, which says it once and without an address book.
type silent struct{}

// Printf implements the logger of go-redis.
func (silent) Printf(context.Context, string, ...any) {}

// Print implements the logger of the MySQL driver.
func (silent) Print(...any) {}

// silenceDrivers is called before anything else.
func silenceDrivers() {
	redis.SetLogger(silent{})
	_ = mysql.SetLogger(silent{}) // fails for nil only
}
