// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestURLs: what Open documents is understood, and no error shows a password.
func TestURLs(t *testing.T) {
	for _, url := range []string{
		"postgres://u:p%40ss@h1:5432,h2:5433/db?sslmode=disable&target_session_attrs=read-write", "postgresql://h/db",
		"mysql://u:p%2Fss@h:3307/db?tls=true&dial_timeout=2s", "mariadb://h/db", "mysql://[::1]/db",
	} {
		db, _, err := connect(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		db.Close()
	}
	c, err := mysqlConfig("mysql://u:p%2Fss@h/db")
	if err != nil || c.Passwd != "p/ss" || c.Addr != "h:3306" || c.User != "u" || c.DBName != "db" {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, url := range []string{
		"", "u:secret@h", "redis://u:secret@h", "postgres://u:secret@h:port/db", "mysql://u:secret@h", "mysql://u:secret@/db",
		"mysql://u:secret%zz@h/db", "mysql://u:se@cr?secret@h/db", "postgres://u:12?secret@h/db", "mysql://u:secret@h/db?tls=maybe", "mysql://u:secret@h/db?dial_timeout=2", "mysql://u:secret@h/db?x=secret",
		"mysql://u:secret@h/db?tls_ca=/nowhere", "postgres://u:secret%zz@h/db",
	} {
		_, err := parseURL(url, nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error without the password", url, err)
		}
	}
}

// TestOptions: a bad value is an error that says what to write.
func TestOptions(t *testing.T) {
	for _, o := range []Options{{Namespace: "A"}, {Namespace: "x;"}, {Namespace: "a.b.c"}, {Namespace: strings.Repeat("x", 30)}, {MaxTTL: time.Millisecond}, {MaxTTL: -1}, {Dialect: 9}, {Accept: []string{"repicas-without-grace"}}} {
		if _, err := o.filled(); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if o, err := (*Options)(nil).filled(); err != nil || o.prefix() != "fencelock_" || o.MaxTTL != DefaultMaxTTL {
		t.Errorf("nil became %+v, %v", o, err)
	}
	db, _, err := connect("mysql://h/db")
	must.OK(t, err)
	defer db.Close()
	if _, err := New(db, &Options{Dialect: PostgreSQL}); err == nil {
		t.Error("another dialect than the driver's was accepted")
	}
	if _, err := New(nil, nil); err == nil {
		t.Error("no database was accepted")
	}
}

// TestFindingsHaveListedCodes: Options.Accept takes the code of every finding.
func TestFindingsHaveListedCodes(t *testing.T) {
	source, err := os.ReadFile("judge.go")
	must.OK(t, err)
	var used []string
	for _, m := range regexp.MustCompile(`add\(driver\.\w+, "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		used = append(used, m[1])
	}
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(used, codes) {
		t.Errorf("judge.go reports %q, codes lists %q", used, codes)
	}
}

// TestVersionsFollowTheClock: a version that is lost in a crash must not be given out again, by
// whatever statement.
func TestVersionsFollowTheClock(t *testing.T) {
	files, err := filepath.Glob("statements/*.sql")
	must.OK(t, err)
	for _, file := range append(files, "release.go", "reclaim.go") {
		source, err := os.ReadFile(file)
		must.OK(t, err)
		for _, m := range regexp.MustCompile(`SET (l\.)?version = .*|version = IF.*`).FindAllString(string(source), -1) {
			if !regexp.MustCompile(`GREATEST\((l\.|\{p\}lock\.)?version \+ 1, (\{now\}|" \+ clocks)`).MatchString(m) {
				t.Errorf("%s: %s does not follow the clock", file, m)
			}
		}
	}
}

// TestClassify: an error from the server means that nothing was done, no answer that the
// outcome is unknown.
func TestClassify(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	live := context.Background()
	cases := []struct {
		ctx  context.Context
		err  error
		want error // nil: none of the three
	}{
		{live, &pgconn.PgError{Code: "57P01"}, driver.ErrUnknown},
		{live, &pgconn.PgError{Code: "08006"}, driver.ErrUnknown},
		{live, &pgconn.PgError{Code: "25P04"}, driver.ErrUnknown},
		{live, &pgconn.PgError{Code: "53300"}, driver.ErrUnavailable},
		{live, &pgconn.PgError{Code: "25006"}, driver.ErrUnavailable},
		{live, &pgconn.PgError{Code: "57014"}, driver.ErrUnavailable},
		{live, &pgconn.PgError{Code: "57P05"}, driver.ErrUnavailable},
		{live, &pgconn.PgError{Code: "08004"}, driver.ErrUnknown},
		{live, &mysql.MySQLError{Number: 1969}, driver.ErrUnavailable},
		{live, &mysql.MySQLError{Number: 3024}, driver.ErrUnavailable},
		{live, &mysql.MySQLError{Number: 1180}, driver.ErrUnknown},
		{live, &mysql.MySQLError{Number: 3100}, driver.ErrUnknown},
		{live, &pgconn.PgError{Code: "42P01"}, nil},
		{live, &mysql.MySQLError{Number: 1040}, driver.ErrUnavailable},
		{live, &mysql.MySQLError{Number: 1290}, driver.ErrUnavailable},
		{live, &mysql.MySQLError{Number: 1064}, nil},
		{live, mysql.ErrInvalidConn, driver.ErrUnknown},
		{live, errors.New("unexpected EOF"), driver.ErrUnknown},
		{live, &net.OpError{Op: "dial", Err: errors.New("refused")}, driver.ErrUnavailable},
		{live, &net.OpError{Op: "read", Err: errors.New("reset")}, driver.ErrUnknown},
		{live, sqldriver.ErrBadConn, driver.ErrUnavailable},
		{ended, &net.OpError{Op: "read", Err: errors.New("timeout")}, driver.ErrUnknown},
	}
	for _, c := range cases {
		err := (&Store{known: true}).classify(c.ctx, "test", c.err)
		for _, kind := range []error{driver.ErrUnknown, driver.ErrUnavailable} {
			if errors.Is(err, kind) != (kind == c.want) {
				t.Errorf("%v became %v, want %v", c.err, err, c.want)
			}
		}
		if c.ctx == ended && !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the context's error", err)
		}
	}
}

// TestClassifyUnknownDriver: what another driver says of a connection that broke is not
// believed; lib/pq says so after the statement was sent.
func TestClassifyUnknownDriver(t *testing.T) {
	for _, cause := range []error{sqldriver.ErrBadConn, &net.OpError{Op: "dial", Err: errors.New("refused")}} {
		if err := (&Store{waker: pollWaker{}}).classify(context.Background(), "test", cause); !errors.Is(err, driver.ErrUnknown) {
			t.Errorf("%v became %v, want ErrUnknown", cause, err)
		}
	}
	for _, url := range []string{"postgres://h/db", "mysql://h/db"} {
		db, _, err := connect(url)
		must.OK(t, err)
		defer db.Close()
		if s, err := New(db, nil); err != nil || !s.known {
			t.Errorf("%s: our own driver is not trusted, %v", url, err)
		}
	}
	db := sql.OpenDB(stranger{})
	defer db.Close()
	if s, err := New(db, &Options{Dialect: PostgreSQL}); err != nil || s.known {
		t.Errorf("an unknown driver is trusted, %v", err)
	}
}

// stranger is a driver that the store does not know.
type stranger struct{}

func (stranger) Connect(context.Context) (sqldriver.Conn, error) { return nil, sqldriver.ErrBadConn }
func (s stranger) Driver() sqldriver.Driver                      { return s }
func (stranger) Open(string) (sqldriver.Conn, error)             { return nil, sqldriver.ErrBadConn }

// TestJudge: each bad fact is found by its code, and good ones are silent.
func TestJudge(t *testing.T) {
	good := map[Dialect]map[string]string{
		PostgreSQL: {"server_version_num": "150018", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "recovery": "false", "replicas": "0"},
		MySQL:      {"version": "10.11.6-MariaDB", "innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF", "read_only": "OFF", "wsrep_on": "OFF"},
	}
	cases := []struct {
		d                 Dialect
		name, value, code string
	}{
		{PostgreSQL, "", "", ""}, {MySQL, "", "", ""},
		{PostgreSQL, "server_version_num", "120005", "version"}, {PostgreSQL, "fsync", "off", "fsync"},
		{PostgreSQL, "synchronous_commit", "off", "synchronous-commit"}, {PostgreSQL, "full_page_writes", "off", "full-page-writes"},
		{PostgreSQL, "recovery", "true", "replica"}, {PostgreSQL, "set_config", "false", "permissions"}, {PostgreSQL, "set_config", "true", ""}, {PostgreSQL, "replicas", "1", "replicas-without-grace"},
		{PostgreSQL, "table lock", "missing", "tables"}, {PostgreSQL, "table lock", "unlogged", "unlogged"}, {PostgreSQL, "table session", "forbidden", "permissions"},
		{PostgreSQL, "snapshot_seconds", "301", "old-snapshot"}, {PostgreSQL, "snapshot_seconds", "300", ""}, {PostgreSQL, "snapshot_age", "200001", "old-snapshot"}, {PostgreSQL, "snapshot_age", "200000", ""},
		{PostgreSQL, "notify_queue", "51", "notify-queue"}, {PostgreSQL, "notify_queue", "50", ""}, {PostgreSQL, "default_transaction_read_only", "on", "read-only"}, {MySQL, "tx_read_only", "ON", "read-only"}, {MySQL, "transaction_read_only", "ON", "read-only"},
		{MySQL, "sql_select_limit", "1", "select-limit"}, {MySQL, "sql_select_limit", "18446744073709551615", ""}, {MySQL, "autocommit", "OFF", "autocommit"}, {MySQL, "autocommit", "ON", ""}, {MySQL, "version", "10.5.9-MariaDB", "version"}, {MySQL, "version", "8.0.20", "version"}, {MySQL, "version", "8.4.0", ""},
		{MySQL, "innodb_flush_log_at_trx_commit", "2", "flush-log"}, {MySQL, "read_only", "ON", "replica"},
		{MySQL, "wsrep_on", "ON", "multi-primary"}, {MySQL, "table lock", "MyISAM", "table-engine"},
		{MySQL, "group_replication_single_primary_mode", "OFF", "multi-primary"}, {MySQL, "group_replication_single_primary_mode", "ON", ""},
		{MySQL, "transaction_isolation", "REPEATABLE-READ", "isolation"}, {MySQL, "tx_isolation", "SERIALIZABLE", "isolation"}, {MySQL, "tx_isolation", "READ-COMMITTED", ""},
	}
	for _, c := range cases {
		f := facts{dialect: c.d, values: map[string]string{"table incarnation": "ok", "table session": "ok", "table lock": "ok"}}
		for name, value := range good[c.d] {
			f.values[name] = value
		}
		f.values[c.name] = c.value
		found := judge(f)
		if c.code == "" && len(found) != 0 || c.code != "" && (len(found) != 1 || found[0].Code != c.code || found[0].Fix == "") {
			t.Errorf("%v with %s=%s: found %v, want %q", c.d, c.name, c.value, found, c.code)
		}
	}
	for format, want := range map[string]bool{"STATEMENT": true, "MIXED": false, "ROW": false} {
		found := judge(facts{dialect: MySQL, grace: true, values: map[string]string{
			"table incarnation": "ok", "table session": "ok", "table lock": "ok", "version": "8.4.0", "innodb_flush_log_at_trx_commit": "1",
			"log_bin": "ON", "sync_binlog": "1", "binlog_format": format,
		}})
		if bad := len(found) == 1 && found[0].Code == "binlog-format" && found[0].Severity == driver.Danger; bad != want || len(found) > 1 {
			t.Errorf("a binary log of format %s: found %v", format, found)
		}
	}
	if found := judge(facts{dialect: MySQL, ahead: time.Hour, values: map[string]string{}}); found[len(found)-1].Code != "clock" {
		t.Errorf("a clock an hour off: found %v", found)
	}
}

// TestMayReserve: stores keep half of a handle's connections at most.
func TestMayReserve(t *testing.T) {
	for limit, most := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 10: 5} {
		if !mayReserve(limit, most-1) && most > 0 || mayReserve(limit, most) {
			t.Errorf("of %d connections not exactly %d may be kept", limit, most)
		}
	}
	if !mayReserve(0, 1000) {
		t.Error("a handle without a limit has one")
	}
}

// TestOpenStore: the schemes are registered, the parameters of all stores are read, and the
// driver sees the others only. No server listens.
func TestOpenStore(t *testing.T) {
	rest, o, migrate, err := readURL("postgres://u:p@h/d?sslmode=disable&namespace=my-app&grace=true&max_ttl=30s&accept=fsync,clock&migrate=true", &Options{Namespace: "my-app"})
	if err != nil || rest != "postgres://u:p@h/d?sslmode=disable" || !migrate || o.prefix() != "my_app_" || !o.Grace || o.MaxTTL != 30*time.Second || len(o.Accept) != 2 {
		t.Errorf("got %q, %+v, %t, %v", rest, o, migrate, err)
	}
	if s, err := FromURL("postgres://h/d?migrate=true", nil); s != nil || err == nil || !strings.Contains(err.Error(), "migrate=true") {
		t.Errorf("FromURL with migrate: got %v, want an error", err)
	}
	for _, scheme := range []string{"postgres", "postgresql", "mysql", "mariadb"} {
		url := scheme + "://u:hunter2@127.0.0.1:1/d?"
		storetest.Refused(t, storetest.ByURL(t), map[string]string{
			url + "buckets=4": "does nothing", url + "grace=hunter2": "parameter grace", url + "namespace=A": "Options.Namespace",
			url + "namespace=x": "open 127.0.0.1:1: store unavailable: dial tcp",
		})
	}
}

// TestConnectErrorIsOfTheHostThatAnswered: at the first host no server listens, and the second
// refuses TLS, which is what the user has to change.
func TestConnectErrorIsOfTheHostThatAnswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 8)) // the request for TLS
			_, _ = conn.Write([]byte("N"))
			_ = conn.Close()
		}
	}()
	for _, hosts := range []string{"127.0.0.1:1," + l.Addr().String(), l.Addr().String() + ",127.0.0.1:1"} {
		_, err = Open(t.Context(), "postgres://u:hunter2@"+hosts+"/d?sslmode=require", nil)
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "server refused TLS connection") {
			t.Errorf("%s: got %v, want that the server refused TLS", hosts, err)
		}
	}
}

// TestOptionsAndURLMustNotDiffer: a setting in both places must have one value.
func TestOptionsAndURLMustNotDiffer(t *testing.T) {
	opts := &Options{Namespace: "mine", MaxTTL: time.Second, Grace: true, Accept: []string{"fsync"}}
	storetest.Differ(t, func(url string) error { _, _, _, err := readURL(url, opts); return err }, map[string]string{
		"postgres://h/d?namespace=x": "Options.Namespace",
		"mysql://h/d?max_ttl=2s":     "Options.MaxTTL",
		"mysql://h/d?grace=false":    "Options.Grace",
		"mysql://h/d?accept=clock":   "Options.Accept",
	}, "postgres://h/d?namespace=mine&max_ttl=1s&grace=true&accept=fsync")
}

// TestFailedPollIsRepeated: listening began after the claim was queued, so its grant may not
// have been pushed, and the poll that would find it fails. The next wait polls again.
func TestFailedPollIsRepeated(t *testing.T) {
	db, err := sql.Open("pgx", "postgres://127.0.0.1:1/none?sslmode=disable") // no server listens there
	must.OK(t, err)
	defer db.Close()
	s, err := New(db, nil)
	must.OK(t, err)
	ss := &session{store: s, sid: "a", waits: map[uint64]*waiting{1: {queued: true, notified: make(chan struct{})}}}
	s.listener.heard, s.listener.done = 1, make(chan struct{}) // it listens, and needs no goroutine
	s.listener.members[ss.sid] = &member{ss: ss, asked: true, since: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i := range 2 {
		if _, err := ss.Await(ctx, &driver.Claim{Seq: 1, Name: "x"}); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("wait %d: %v, want what the poll returned", i+1, err)
		}
	}
}

// TestHandoffLockThatComesBackIsNotMissed: a claim that waits for a handoff lock gets it, whenever it comes.
func TestHandoffLockThatComesBackIsNotMissed(t *testing.T) {
	b := handoffLocks{patience: time.Minute, handoffPool: handoffPool{freed: 1}}
	for i := range 2000 {
		got := make(chan *handoffLock)
		go func() { got <- b.get(t.Context()) }()
		for asks := false; !asks; {
			runtime.Gosched()
			b.mu.Lock()
			if asks = len(b.asking) == 1; asks {
				b.putBackLocked(&handoffLock{})
			}
			b.mu.Unlock()
		}
		if bl := <-got; bl == nil || len(b.idle) != 0 {
			t.Fatalf("claim %d got %v, and %d handoff locks are idle", i, bl, len(b.idle))
		}
	}
}
