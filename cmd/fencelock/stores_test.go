// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// startSQL starts a database for the length of a test and returns where it listens.
func startSQL(t *testing.T, start func(settings ...string) (*servers.Server, error), settings ...string) string {
	t.Helper()
	s, err := start(settings...)
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	t.Cleanup(s.Stop)
	return s.Addr
}

// TestDatabaseIsChecked: tables that are missing and a database that may lose data are reported
// with what to do, and nothing is run.
func TestDatabaseIsChecked(t *testing.T) {
	t.Parallel()
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", startSQL(t, servers.Postgres, "fsync=off"))
	contains(t, fencelockCLI(t, url, "run", "a", "--", "echo", "ran").want(exitUsage).err.String(), "migrate=true")
	p := fencelockCLI(t, url+"&migrate=true", "run", "a", "--", "echo", "ran").want(exitUsage)
	contains(t, p.err.String(), "fsync is off", "accept=fsync")
	if out := p.out.String(); out != "" {
		t.Errorf("it ran: %q", out)
	}
	contains(t, fencelockCLI(t, url+"&accept=fsync", "run", "a", "--", "echo", "ran").want(0).out.String(), "ran")
	contains(t, fencelockCLI(t, url, "doctor").want(exitFailed).out.String(), "fsync is off")
}

// TestMissingPermissionsAreNotOffered: a role without permissions is shown the statements
// that grant them, and not to accept what accepting does not change.
func TestMissingPermissionsAreNotOffered(t *testing.T) {
	t.Parallel()
	addr := startSQL(t, servers.Postgres)
	admin := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&migrate=true", addr)
	fencelockCLI(t, admin, "run", "a", "--", "true").want(0)
	db, err := sql.Open("pgx", admin[:strings.Index(admin, "&")])
	must.OK(t, err)
	defer db.Close()
	if _, err := db.Exec("CREATE ROLE app LOGIN; GRANT SELECT ON fencelock_incarnation, fencelock_session, fencelock_lock TO app"); err != nil {
		t.Fatal(err)
	}
	text := fencelockCLI(t, fmt.Sprintf("postgres://app@%s/postgres?sslmode=disable", addr), "run", "a", "--", "true").want(exitUsage).err.String()
	contains(t, text, "GRANT SELECT, INSERT, UPDATE, DELETE ON fencelock_lock")
	if strings.Contains(text, "accept=") {
		t.Errorf("it offers to accept what accepting does not change: %s", text)
	}
}

// TestStores: run, ls and doctor work on every store that does not live in one process, and a lease of the lock API
// outlives its server there.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string { return startRedis(t).url() },
		"etcd": func(t *testing.T) string {
			return "etcd://" + startEtcd(t)
		},
		"quorum": func(t *testing.T) string {
			a, b, c := startRedis(t), startRedis(t), startRedis(t)
			return "quorum://" + strings.Join([]string{a.addr, b.addr, c.addr}, ",")
		},
		"postgres": func(t *testing.T) string {
			return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&migrate=true", startSQL(t, servers.Postgres))
		},
		"mysql": func(t *testing.T) string {
			return fmt.Sprintf("mysql://root@%s/test?migrate=true", startSQL(t, servers.MariaDB))
		},
		"zk": func(t *testing.T) string {
			e := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(1) })
			return "zk://" + e.Servers[0].Addr
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			path, err := binary()
			must.OK(t, err)
			p := fencelockCLI(t, url, "run", "a", "--reason", "why not", "--", "sh", "-c", path+" ls || exit 4; "+path+" run a --try -- true; exit 3").want(3)
			contains(t, p.out.String(), "why not")
			contains(t, p.err.String(), "is held by")
			out := fencelockCLI(t, url, "doctor").want(0).out.String()
			contains(t, out, "acquired and released a lock", "Guarantees on")
			if name == "zk" {
				contains(t, out, "standalone")
			}
			leaseOutlivesItsServer(t, url)
		})
	}
}

// TestDoctorOfEtcd: the members are asked.
func TestDoctorOfEtcd(t *testing.T) {
	t.Parallel()
	addr, closed := startEtcd(t), net.JoinHostPort("127.0.0.1", freePort(t))
	contains(t, fencelockCLI(t, "etcd://"+addr, "doctor").want(0).out.String(), "Guarantees on etcd", "nothing to worry about")
	contains(t, fencelockCLI(t, "etcd://"+addr+","+closed, "doctor").want(0).out.String(), "WARNING  unreachable ("+closed+")", "acquired and released a lock")
}

// TestSchemaQuotesUsers: as applications log in is not always a word of SQL.
func TestSchemaQuotesUsers(t *testing.T) {
	for _, c := range []struct{ server, user, want string }{
		{"postgres", "", "USER"},
		{"postgres", "app", `"app"`},
		{"postgres", "user", `"user"`},
		{"postgres", "my-app", `"my-app"`},
		{"postgres", "App", `"App"`},
		{"postgres", `"App"`, `"App"`},
		{"mysql", "app", "'app'@'%'"},
		{"mysql", "my-app", "'my-app'@'%'"},
		{"mysql", "app@10.0.0.%", "'app'@'10.0.0.%'"},
		{"mysql", "'app'@'%'", "'app'@'%'"},
	} {
		if got := sqlUser(c.server, c.user); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.server, c.user, got, c.want)
		}
	}
}

// TestSchema: an administrator gets what the errors about missing tables and permissions
// ask for, with the namespace of the URL.
func TestSchema(t *testing.T) {
	t.Parallel()
	contains(t, fencelockCLI(t, "redis://127.0.0.1:1", "schema", "--user", "ann").want(0).out.String(), "ACL SETUSER ann on ") // without a server
	addr := startSQL(t, servers.Postgres)
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&namespace=my-app", addr)
	contains(t, fencelockCLI(t, url, "ls").want(exitFailed).err.String(), "add migrate=true to the URL, or apply what fencelock schema prints")
	contains(t, fencelockCLI(t, url, "schema", "--user", "ann").want(0).out.String(),
		"CREATE TABLE IF NOT EXISTS my_app_lock", `GRANT SELECT, INSERT, UPDATE, DELETE ON my_app_lock TO "ann";`)
	for _, command := range []string{"schema --grants", "grants"} {
		if got, want := fencelockCLI(t, url, append(strings.Fields(command), "--user", "ann")...).want(0).out.String(), `GRANT SELECT, INSERT, UPDATE ON my_app_incarnation TO "ann";
GRANT SELECT, INSERT, UPDATE, DELETE ON my_app_session TO "ann";
GRANT SELECT, INSERT, UPDATE, DELETE ON my_app_lock TO "ann";
`; got != want {
			t.Errorf("%s prints %q, want %q", command, got, want)
		}
	}
	// It changes nothing, even with the URL of a program that creates its tables.
	fencelockCLI(t, url+"&migrate=true", "schema", "--user", "ann").want(0)
	contains(t, fencelockCLI(t, url, "ls").want(exitFailed).err.String(), "apply what fencelock schema prints")
	contains(t, fencelockCLI(t, startRedis(t).url(), "schema").want(0).out.String(), "ACL SETUSER USER on ", "~fencelock:", "+evalsha")
	contains(t, fencelockCLI(t, "mem://", "schema").want(0).err.String(), "memory needs no setup")
}

// TestSchemaIsApplied: what schema and grants print is applied as it is, on a connection that has
// chosen no database where there are such connections, and for a user whose name is a word of SQL.
func TestSchemaIsApplied(t *testing.T) {
	t.Parallel()
	type database struct {
		start                func(settings ...string) (*servers.Server, error)
		driver, source, url  string // of an administrator, and of the store as a user
		admin, user, created string
	}
	mysql := database{servers.MySQL, "mysql", "root@tcp(%s)/?multiStatements=true", "mysql://%s@%s/my-locks?namespace=my-app",
		"root", "select", "CREATE DATABASE `my-locks`; CREATE USER 'select'@'127.0.0.1'"}
	mariadb := mysql
	mariadb.start = servers.MariaDB
	for name, c := range map[string]database{
		"postgres": {servers.Postgres, "pgx", "postgres://postgres@%s/postgres?sslmode=disable", "postgres://%s@%s/postgres?sslmode=disable&namespace=my-app",
			"postgres", "user", `CREATE ROLE "user" LOGIN`},
		"mariadb": mariadb, "mysql": mysql,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := startSQL(t, c.start)
			apply := func(text string) {
				t.Helper()
				db, err := sql.Open(c.driver, fmt.Sprintf(c.source, addr)) // each on its own connection
				must.OK(t, err)
				defer db.Close()
				if _, err := db.Exec(text); err != nil {
					t.Fatalf("%v, of\n%s", err, text)
				}
			}
			apply(c.created)
			admin, user, login := fmt.Sprintf(c.url, c.admin, addr), fmt.Sprintf(c.url, c.user, addr), c.user
			if c.driver == "mysql" {
				login += "@127.0.0.1"
			}
			for range 2 { // applying it twice does no harm
				apply(fencelockCLI(t, admin, "schema", "--user", login).want(0).out.String())
			}
			apply(fencelockCLI(t, admin, "grants", "--user", login).want(0).out.String())
			fencelockCLI(t, user, "run", "a", "--", "true").want(0)
		})
	}
}

// TestMemcached: memcached is good enough to run one command at a time, and refused
// where that is not enough.
func TestMemcached(t *testing.T) {
	t.Parallel()
	url := "memcached://" + servers.Test(t, func() (*servers.MemcachedServer, error) { return servers.Memcached() }).Addr
	path, err := binary()
	must.OK(t, err)
	p := fencelockCLI(t, url, "run", "a", "--", "sh", "-c", path+" run a --try -- true; exit 3").want(3)
	contains(t, p.err.String(), "is held by")
	fencelockCLI(t, url, "run", "a", "--correctness", "--", "true").want(64)
	p = fencelockCLI(t, url, "run", "a", "--", "sh", "-c", `echo "token ${FENCELOCK_TOKEN-none}"`).want(0)
	contains(t, p.out.String(), "token none")
	p = script(t, url, `FENCELOCK_TOKEN=1; eval "$($F acquire a --while $$)"; echo "token ${FENCELOCK_TOKEN-none}"; $F release`).want(0)
	contains(t, p.out.String(), "token none")
	for _, kind := range []string{"--shared", "--permits=2", "--once-per=1h"} {
		contains(t, fencelockCLI(t, url, "run", "b", kind, "--", "true").want(64).err.String(), "not supported by this store")
	}
}

// TestSharedFormats: a command excludes the services of other libraries, on one server and on a
// majority of three, and the stores refuse what the formats have not got.
func TestSharedFormats(t *testing.T) {
	t.Parallel()
	var all []*servers.RedisServer
	var addrs []string
	for range 3 {
		s := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
		all, addrs = append(all, s), append(addrs, s.Addr)
	}
	path, err := binary()
	must.OK(t, err)
	for name, tt := range map[string]struct {
		url   string
		taken []any
		on    []*servers.RedisServer
	}{
		"redisson":   {"redisson://" + addrs[0], []any{"HSET", "taken", "java:1", "1"}, all[:1]},
		"read-write": {"redisson://" + addrs[1] + "?read_write=true", []any{"HSET", "taken", "mode", "write", "java:1:write", "1"}, all[1:2]},
		"setnx":      {"setnx://" + addrs[0] + "?prefix=app:", []any{"SET", "app:taken", "foreign"}, all[:1]},
		"redlock":    {"setnx://" + strings.Join(addrs, ",") + "?prefix=red:", []any{"SET", "red:taken", "foreign"}, all},
	} {
		t.Run(name, func(t *testing.T) {
			p := fencelockCLI(t, tt.url, "run", "a", "--", "sh", "-c", path+" run a --try -- true; exit 3").want(3)
			contains(t, p.err.String(), "is held by")
			for _, s := range tt.on {
				must.OK(t, s.Do(tt.taken...).Err())
			}
			fencelockCLI(t, tt.url, "run", "taken", "--try", "--", "true").want(75)
			contains(t, fencelockCLI(t, tt.url, "run", "b", "--permits=2", "--", "true").want(64).err.String(), "not supported by this store")
			contains(t, fencelockCLI(t, tt.url, "why").want(64).err.String(), "fencelock why LOCK shows one lock")
			contains(t, fencelockCLI(t, tt.url, "why", "taken").want(0).out.String(), "taken: held by 1")
			// There is no token to give, so the advice must not be one.
			contains(t, fencelockCLI(t, tt.url, "force-unlock", "taken", "--reason", "x").want(64).err.String(), "another library", "without a token")
			fencelockCLI(t, tt.url, "run", "a", "--correctness", "--", "true").want(64)
		})
	}
}
