// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Open connects to the database at a URL and returns a store that owns its handle: Store.Close
// closes it. The package comment has the grammar of the URLs.
//
// Open checks the database as Store.Check does, so that a wrong address or password, missing
// tables, and settings with which locks are unsafe are reported at once. Errors never show a
// password. Open creates no tables unless the URL has migrate=true.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	t, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	s, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.fit(ctx); errors.Is(err, driver.ErrUnknown) { // it has changed nothing
		err = fmt.Errorf("sqlstore: open %s: %w: %v", t.addr, driver.ErrUnavailable, err)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// FromURL is Open without any call to the database: it is New with a handle that it makes from the
// URL and that Store.Close closes. What is wrong with the database is found when the first lock is
// asked for. Use it where a process shall start before its database does. It takes no migrate=true;
// call Store.Migrate.
func FromURL(url string, opts *Options) (*Store, error) {
	t, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	if t.migrate {
		return nil, errors.New("sqlstore: FromURL makes no call to the database, so it creates no tables; remove migrate=true from the URL and call Store.Migrate, or use Open")
	}
	return t.store()
}

// target is what a URL names.
type target struct {
	rest    string // of the URL, for the driver
	db      *sql.DB
	addr    string
	options Options
	migrate bool
}

// parseURL reads a URL. It does no I/O.
func parseURL(url string, opts *Options) (t target, err error) {
	if t.rest, t.options, t.migrate, err = readURL(url, opts); err == nil {
		t.db, t.addr, err = connect(t.rest)
	}
	return t, err
}

// store makes the store, which owns its handle.
func (t *target) store() (*Store, error) {
	s, err := New(t.db, &t.options)
	if err != nil {
		_ = t.db.Close()
		return nil, err
	}
	s.closeDB = true
	return s, nil
}

// connect makes the store of a server that lets us in, and creates the tables if the URL says so.
func (t *target) connect(ctx context.Context) (*Store, error) {
	s, err := t.store()
	if err != nil {
		return nil, err
	}
	err = s.ping(ctx, t.addr)
	if err != nil && code(err) == "42704" { // of a parameter that PostgreSQL does not know
		err = fmt.Errorf("%w%s", err, meantIn(t.rest))
	}
	// PostgreSQL's parameters have other names, and its driver's errors say what is wrong.
	if hint := storekit.CertificateHint(err); hint != "" && s.dialect == MySQL {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	if err == nil && t.migrate {
		err = s.Migrate(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// ping asks the server whether it lets us in. It changes nothing, so its outcome is never
// unknown.
func (s *Store) ping(ctx context.Context, addr string) error {
	var cause error
	err := s.run(ctx, "open "+addr, func() error {
		cause = connectCause(s.db.PingContext(ctx))
		return cause
	})
	if errors.Is(err, driver.ErrUnknown) {
		return fmt.Errorf("sqlstore: open %s: %w: %w", addr, driver.ErrUnavailable, cmp.Or(ctx.Err(), cause))
	}
	return err
}

// connectCause returns what ended an attempt to connect. The driver's own error is several
// lines, and repeats an address for each of the ways in which it was tried. Of several hosts
// or addresses, one that answered explains more than one at which no server listens.
func connectCause(err error) error {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		if all, ok := connect.Unwrap().(interface{ Unwrap() []error }); ok {
			for _, tried := range slices.Backward(all.Unwrap()) {
				var op *net.OpError
				if !errors.As(tried, &op) {
					return cmp.Or(errors.Unwrap(tried), tried)
				}
				if op.Op != "dial" {
					return op
				}
			}
		}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	return err
}

// connect makes the handle for a URL, and returns the address in it. It does no I/O.
func connect(rawURL string) (*sql.DB, string, error) {
	scheme, _, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "postgres", "postgresql":
		c, err := pgx.ParseConfig(rawURL)
		if err != nil {
			return nil, "", errors.New("sqlstore: the postgres URL cannot be read (it is not shown, it may hold a password); write postgres://user:password@host:5432/database?sslmode=verify-full and escape special characters with %")
		}
		return stdlib.OpenDB(*c), net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), nil
	case "mysql", "mariadb":
		c, err := mysqlConfig(rawURL)
		if err != nil {
			return nil, "", err
		}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, "", fmt.Errorf("sqlstore: mysql URL: %w", err)
		}
		return sql.OpenDB(settled{connector}), c.Addr, nil
	}
	if rawURL == "" {
		return nil, "", errors.New("sqlstore: the URL is empty; it begins with postgres:// or mysql://")
	}
	return nil, "", errors.New("sqlstore: the URL must begin with postgres:// or mysql:// (it is not shown, it may hold a password)")
}

// settled is a connector whose connections have the settings that the statements rely on,
// whatever those of the server are.
type settled struct{ sqldriver.Connector }

// settledBy are the settings: every statement is committed, locks no rows that it only reads, waits
// for a locked row for a second at most, and returns all rows. go-sql-driver takes settings as name=value, and
// the isolation has a name that MySQL and MariaDB agree on only as a statement.
var settledBy = []string{
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	"SET SESSION autocommit = 1, innodb_lock_wait_timeout = 1, sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615",
}

// Connect implements database/sql/driver.Connector.
func (c settled) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range settledBy {
		if _, err = conn.(sqldriver.ExecerContext).ExecContext(ctx, text, nil); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// mysqlConfig reads a mysql:// URL.
func mysqlConfig(rawURL string) (*mysql.Config, error) {
	_, rest, _ := strings.Cut(rawURL, "://")
	a, err := storekit.Form{Package: "sqlstore", Scheme: "mysql", Port: "3306"}.Parse("mysql://" + rest)
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.Timeout, c.User = "tcp", a.Hosts[0], 5*time.Second, a.User.Username()
	c.Passwd, _ = a.User.Password()
	if c.DBName, err = url.PathUnescape(strings.Trim(a.Path, "/")); err != nil || c.DBName == "" || len(a.Hosts) > 1 {
		return nil, errors.New("sqlstore: a mysql URL names a host and a database, as in mysql://locks@db.example.com:3306/app")
	}
	var mode string
	var files storekit.TLSFiles
	known := files.Parameters()
	maps.Copy(known, ours(&Options{}, new(bool))) // they were taken out before
	known["tls"], known["dial_timeout"] = storekit.Text(&mode), storekit.Duration(&c.Timeout)
	if err := known.Read("sqlstore", a.Query); err != nil {
		return nil, err
	}
	if mode != "" && mode != "true" && mode != "preferred" {
		return nil, errors.New("sqlstore: the parameter tls in the URL takes true or preferred")
	}
	c.TLSConfig = mode
	if files != (storekit.TLSFiles{}) {
		host, _, _ := net.SplitHostPort(c.Addr)
		files.ServerName = cmp.Or(files.ServerName, host)
		c.TLS, err = files.Config("sqlstore")
	}
	return c, err
}
