// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/sqlstore"
)

var _ = register(&engine{
	schemes: []string{"postgres", "postgresql"},
	form:    "postgres://[user[:password]@]host[:port][,host[:port]...][/database]",
	note: "PostgreSQL 13 or later; the namespace begins the names of the tables; migrate=true\n" +
		"      creates them; over TLS with sslmode=verify-full",
	open: openSQL,
})

var _ = register(&engine{
	schemes: []string{"mysql", "mariadb"},
	form:    "mysql://[user[:password]@]host[:port]/database",
	note: "MariaDB 10.6 or later, MySQL 8.0.21 or later; the namespace begins the names of the\n" +
		"      tables; migrate=true creates them; over TLS with tls=true",
	open: openSQL,
})

func openSQL(ctx context.Context, url string, s settings) (*opened, error) {
	if s.buckets != 0 {
		return nil, usage("buckets are not for databases: one is one shard")
	}
	url, migrate, err := takeMigrate(url)
	if err != nil {
		return nil, err
	}
	opts := &sqlstore.Options{Grace: s.grace, MaxTTL: s.maxTTL}
	if s.namespace != "" {
		opts.Prefix = strings.ReplaceAll(s.namespace, "-", "_") + "_"
	}
	store, err := sqlstore.Open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	if migrate {
		if err := store.Migrate(ctx); err != nil {
			_ = store.Close()
			return nil, err
		}
	}
	return &opened{Store: &checkedSQL{Store: store, settings: s}, close: store.Close, graceFix: addGrace, check: store.Check}, nil
}

// takeMigrate takes the parameter out of a URL: it is ours, not the driver's.
func takeMigrate(url string) (rest string, migrate bool, err error) {
	base, query, _ := strings.Cut(url, "?")
	pairs := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		value, ours := strings.CutPrefix(pair, "migrate=")
		if ours {
			migrate, err = strconv.ParseBool(value)
		}
		return ours || pair == ""
	})
	if err != nil {
		return "", false, usage("parameter migrate in the store's URL: write true or false")
	}
	if len(pairs) == 0 {
		return base, migrate, nil
	}
	return base + "?" + strings.Join(pairs, "&"), migrate, nil
}

// checkedSQL is a store that looks at the database before the first lock and refuses
// one on which locks are unsafe.
type checkedSQL struct {
	*sqlstore.Store
	settings settings
}

// Open implements driver.Store.
func (c *checkedSQL) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	found, err := c.Check(ctx)
	if err != nil {
		return nil, driver.Life{}, err
	}
	// Without tables nothing works, whatever else there is.
	if i := slices.IndexFunc(found, func(f driver.Finding) bool { return f.Code == "tables" }); i >= 0 {
		return nil, driver.Life{}, fmt.Errorf("%s; add migrate=true to the store's URL to create it: %w", found[i].Reason, driver.ErrRefused)
	}
	for _, f := range found {
		switch {
		case f.Severity == driver.Note || slices.Contains(c.settings.accept, f.Code):
		case f.Severity == driver.Danger:
			return nil, driver.Life{}, fmt.Errorf("%v; or accept it by accept=%s in the store's URL: %w", f, f.Code, driver.ErrRefused)
		default:
			c.settings.warn(f.String())
		}
	}
	return c.Store.Open(ctx, req)
}
