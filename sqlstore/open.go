// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Open connects to the database at a URL and returns a store that owns its handle:
// Store.Close closes it. It asks the server once, so that a wrong address or password is
// told now. Errors never show a password. It creates no tables; Migrate does.
//
//	postgres://[user[:password]@]host[:port][,host[:port]...][/database][?parameters]
//	mysql://[user[:password]@]host[:port]/database[?parameters]
//
// Of PostgreSQL the parameters are those of libpq: sslmode, sslrootcert, sslcert, sslkey,
// connect_timeout, target_session_attrs, application_name and so on. Of MySQL and
// MariaDB there are
//
//	tls           true, or preferred for a server that may have none
//	tls_ca        file with the certificates to trust, instead of the system's
//	dial_timeout  how long connecting may take, 5s
//
// Characters with a meaning in URLs are escaped: %40 for @, %2F for /, %25 for %. A URL
// with a password does not belong in a command line, where every user of the machine can
// read it: take it from the environment or a file.
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	db, err := connect(rawURL)
	if err != nil {
		return nil, err
	}
	s, err := New(db, opts)
	if err == nil {
		err = s.run(ctx, "open", func() error { return db.PingContext(ctx) })
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	s.closeDB = true
	return s, nil
}

// connect makes the handle for a URL. It does no I/O.
func connect(rawURL string) (*sql.DB, error) {
	scheme, _, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "postgres", "postgresql":
		c, err := pgx.ParseConfig(rawURL)
		if err != nil {
			return nil, errors.New("sqlstore: the postgres URL cannot be read (it is not shown, it may hold a password); write postgres://user:password@host:5432/database?sslmode=verify-full and escape special characters with %")
		}
		return stdlib.OpenDB(*c), nil
	case "mysql", "mariadb":
		c, err := mysqlConfig(rawURL)
		if err != nil {
			return nil, err
		}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, fmt.Errorf("sqlstore: mysql URL: %w", err)
		}
		return sql.OpenDB(connector), nil
	}
	return nil, errors.New("sqlstore: the URL must begin with postgres:// or mysql:// (it is not shown, it may hold a password)")
}

// mysqlConfig reads a mysql:// URL.
func mysqlConfig(rawURL string) (*mysql.Config, error) {
	u, err := url.Parse(rawURL)
	if err != nil { // its text quotes the URL
		return nil, errors.New("sqlstore: the mysql URL cannot be read (it is not shown, it may hold a password); write mysql://user:password@host:3306/database and escape special characters with %")
	}
	c := mysql.NewConfig()
	c.Net, c.DBName, c.Timeout = "tcp", strings.Trim(u.Path, "/"), 5*time.Second
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	if u.Hostname() == "" || c.DBName == "" {
		return nil, errors.New("sqlstore: a mysql URL names a host and a database, as in mysql://locks@db.example.com:3306/app")
	}
	c.Addr = net.JoinHostPort(u.Hostname(), port)
	var ca string
	for name, values := range u.Query() {
		switch v := values[0]; name {
		case "tls":
			if v != "true" && v != "preferred" {
				return nil, errors.New("sqlstore: parameter tls of the URL is true or preferred")
			}
			c.TLSConfig = v
		case "tls_ca":
			ca = v
		case "dial_timeout":
			if c.Timeout, err = time.ParseDuration(v); err != nil {
				return nil, errors.New("sqlstore: parameter dial_timeout of the URL: write 500ms or 2s")
			}
		default:
			return nil, fmt.Errorf("sqlstore: unknown parameter %q in the URL; there are tls, tls_ca and dial_timeout", name)
		}
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("sqlstore: tls_ca: %w", err)
		}
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: u.Hostname()}
		if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("sqlstore: tls_ca: %s holds no certificate in PEM form", ca)
		}
	}
	return c, nil
}
