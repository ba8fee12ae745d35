// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	"github.com/fencelock/fencelock/store/memcachestore"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/fencelock/fencelock/store/shard"
	"github.com/fencelock/fencelock/store/sqlstore"
	"github.com/fencelock/fencelock/store/zkstore"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

var update = flag.Bool("update", false, "TestGuaranteesTable writes the table into docs/guarantees.md instead of comparing it")

const (
	guaranteesPage = "../../docs/guarantees.md"
	tableBegin     = "<!-- table of stores: go test ./cmd/fencelock -run TestGuaranteesTable -update -->\n"
	tableEnd       = "<!-- end of the table of stores -->\n"
)

// A described store is a row of the table.
type described struct {
	name  string
	store driver.Store
}

// describedStores is one line for each store, in the order of the table. None of
// them asks a server: Caps must not do I/O.
func describedStores(t *testing.T) []described {
	return []described{
		{"`memstore`", memstore.New(nil)},
		{"`redisstore`", redisAt(t, 1, nil)},
		{"`redisstore`, grace", redisAt(t, 1, &redisstore.Options{Grace: true})},
		{"`etcdstore`", etcdAt(t)},
		{"`zkstore`", opensLazily(t)(zkstore.New([]string{"127.0.0.1:1"}, nil))},
		{"`sqlstore`, PostgreSQL", sqlAt(t, "pgx", "postgres://127.0.0.1:1/x", nil)},
		{"`sqlstore`, MariaDB or MySQL", sqlAt(t, "mysql", "tcp(127.0.0.1:1)/x", nil)},
		{"`sqlstore`, PostgreSQL, grace", sqlAt(t, "pgx", "postgres://127.0.0.1:1/x", &sqlstore.Options{Grace: true})},
		{"`memcachestore`", opensLazily(t)(memcachestore.New("127.0.0.1:1", nil))},
		{"`quorum` of 3 × `redisstore`, grace", quorumAt(t, &redisstore.Options{Grace: true})},
		{"`shard` of 2 × `redisstore`, grace", shardAt(t)},
	}
}

// TestGuaranteesTable: the table of stores in docs/guarantees.md is what the stores
// say of themselves.
func TestGuaranteesTable(t *testing.T) {
	page, err := os.ReadFile(guaranteesPage)
	must.OK(t, err)
	before, rest, ok := strings.Cut(string(page), tableBegin)
	old, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatalf("%s has no block between %q and %q", guaranteesPage, tableBegin, tableEnd)
	}
	table := guaranteesTable(t, describedStores(t))
	switch {
	case old == table:
	case *update:
		must.OK(t, os.WriteFile(guaranteesPage, []byte(before+tableBegin+table+tableEnd+after), 0o644))
	default:
		t.Errorf("the table in %s is not what the stores say; run go test ./cmd/fencelock -run TestGuaranteesTable -update\ngot\n%swant\n%s", guaranteesPage, old, table)
	}
}

// TestGuaranteesAreNotAboutGo: what the API and doctor show of a store names parameters of its URL.
func TestGuaranteesAreNotAboutGo(t *testing.T) {
	inGo := regexp.MustCompile(`\b(Options|MaxTTL|MaxHold|Grace|FencedPeers|Require|(mem|redis|etcd|zk|sql|memcache|setnx|redisson|curator|concurrency)store)\b`)
	anywhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = anywhere.Close() })
	redisson, err := redissonstore.New(anywhere, nil)
	shared := []described{{"redissonstore", opensLazily(t)(redisson, err)}}
	setnx, err := setnxstore.New(anywhere, nil)
	shared = append(shared, described{"setnxstore", opensLazily(t)(setnx, err)})
	concurrency, err := concurrencystore.New(etcdClient(t), nil)
	shared = append(shared, described{"concurrencystore", opensLazily(t)(concurrency, err)})
	curator, err := curatorstore.New([]string{"127.0.0.1:1"}, nil)
	shared = append(shared, described{"curatorstore", opensLazily(t)(curator, err)}, described{"quorum without grace", quorumAt(t, nil)})
	for _, d := range append(describedStores(t), shared...) {
		c, err := fencelock.New(d.store, nil)
		if err != nil {
			t.Fatal(d.name, err)
		}
		g := c.Guarantees()
		shown := lockview.GuaranteesOf(g)
		if found := inGo.FindString(text.Plain(g.String()) + shown.Advice + shown.Assumes); found != "" {
			t.Errorf("%s: %s in:\n%s\n%s\n%s", d.name, found, text.Plain(g.String()), shown.Advice, shown.Assumes)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(d.name, err)
		}
	}
}

// guaranteesTable is, in Markdown, what the stores promise, what they can do, and
// what they assume.
func guaranteesTable(t *testing.T, stores []described) string {
	promises := mdTable{head: []string{"Store", "Tokens", "After a crash of the server", "`Require: Correctness`", "Waiters in order", "A waiter is notified", "TTL"}}
	abilities := mdTable{head: []string{"Store", "`RWMutex`, `Semaphore`", "`ReentrantAs`", "`MinHold`, `MaxHold`, `Once`", "`List`", "`Lease.Contended` notifies", "`Linger`", "Node of a quorum"}}
	var conditions []string // each once, with the stores that have it
	of := map[string][]string{}
	for _, d := range stores {
		c := d.store.Caps()
		promises.add(d.name, c.Fencing.String(), afterCrash(c), fitness(t, d.store), yes(c.Queue), notified(c), bounds(c))
		abilities.add(d.name, yes(c.Shared), yes(c.Reentry), yes(c.Hold), yes(c.Listing), c.Contended.String(), yes(c.Linger), yes(c.Floor))
		if c.Assumes != "" && of[c.Assumes] == nil {
			conditions = append(conditions, c.Assumes)
		}
		of[c.Assumes] = append(of[c.Assumes], d.name)
	}
	text := promises.String() + "\n`Mutex`, `LockAll` and `Election` work on every store. The rest depends on the store:\n\n" + abilities.String()
	text += "\nSome of these promises have conditions:\n\n"
	for _, condition := range conditions {
		text += fmt.Sprintf("- %s: %s\n", strings.Join(of[condition], "; "), strings.ReplaceAll(condition, "\n", " "))
	}
	return text
}

// mdTable is a table in Markdown.
type mdTable struct {
	head []string
	rows strings.Builder
}

func (t *mdTable) add(cells ...string) { fmt.Fprintf(&t.rows, "| %s |\n", strings.Join(cells, " | ")) }

func (t *mdTable) String() string {
	return fmt.Sprintf("| %s |\n|%s\n%s", strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)), t.rows.String())
}

func afterCrash(c driver.Caps) string {
	switch {
	case c.Grace:
		return "holders keep their leases, by grace"
	case c.Durability == driver.Durable:
		return "a grant survives"
	}
	return "a grant may be lost"
}

func notified(c driver.Caps) string {
	switch {
	case !c.Push:
		return "no, it polls"
	case c.Engine == sqlstore.MySQL.String():
		return "by a named lock, or it polls"
	}
	return "by the store"
}

// fitness asks New, which is what a user's program asks.
func fitness(t *testing.T, store driver.Store) string {
	c, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	switch {
	case errors.Is(err, fencelock.ErrUnsupported):
		return "refused"
	case err != nil:
		t.Fatal(err)
	}
	must.OK(t, c.Close(context.Background()))
	return "accepted"
}

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

// bounds is the range of the TTL with the options of the row.
func bounds(c driver.Caps) string {
	switch {
	case c.MaxTTL == 0:
		return brief(c.MinTTL) + " and more"
	case c.MinTTL == 0:
		return "up to " + brief(c.MaxTTL)
	}
	return brief(c.MinTTL) + " to " + brief(c.MaxTTL)
}

// brief is a duration without its zero parts.
func brief(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// opensLazily takes the results of a function that makes a store.
func opensLazily(t *testing.T) func(driver.Store, error) driver.Store {
	return func(s driver.Store, err error) driver.Store {
		t.Helper()
		must.OK(t, err)
		return s
	}
}

// redisAt makes a store on a client that never connects: it is never called.
func redisAt(t *testing.T, port int, opts *redisstore.Options) driver.Store {
	client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(client, opts)
	return opensLazily(t)(s, err)
}

func etcdAt(t *testing.T) driver.Store {
	s, err := etcdstore.New(etcdClient(t), nil)
	return opensLazily(t)(s, err)
}

func etcdClient(t *testing.T) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	must.OK(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// sqlAt makes a store on a database that is never asked. The drivers are those that
// sqlstore registers.
func sqlAt(t *testing.T, driverName, dsn string, opts *sqlstore.Options) driver.Store {
	db, err := sql.Open(driverName, dsn)
	must.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(db, opts)
	return opensLazily(t)(s, err)
}

func quorumAt(t *testing.T, opts *redisstore.Options) driver.Store {
	var nodes []quorum.Node
	for i := range 3 {
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint(i), Store: redisAt(t, i+1, opts)})
	}
	s, err := quorum.New(nodes, nil)
	return opensLazily(t)(s, err)
}

func shardAt(t *testing.T) driver.Store {
	var members []shard.Member
	for i := range 2 {
		members = append(members, shard.Member{Name: fmt.Sprint(i), Store: redisAt(t, i+1, &redisstore.Options{Grace: true})})
	}
	s, err := shard.New(members, nil)
	return opensLazily(t)(s, err)
}
