// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"strings"

	"github.com/fencelock/fencelock/bench/internal/child"
	"github.com/fencelock/fencelock/internal/servers"
)

// Database is a running PostgreSQL or MariaDB, with its data on disk as it comes.
type Database struct {
	*servers.Server
	url, program string
}

// StartPostgres starts a server. The caller stops it.
func StartPostgres(context.Context) (Server, error) {
	if err := child.Unmoved("PostgreSQL"); err != nil {
		return nil, err
	}
	s, err := servers.Postgres("max_connections=2000")
	if err != nil {
		return nil, err
	}
	return &Database{s, "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable", "postgres"}, nil
}

// StartMariaDB starts a server. The caller stops it.
func StartMariaDB(context.Context) (Server, error) {
	if err := child.Unmoved("MariaDB"); err != nil {
		return nil, err
	}
	s, err := servers.MariaDB("max-connections=2000")
	if err != nil {
		return nil, err
	}
	return &Database{s, "mysql://root@" + s.Addr + "/test", "mariadbd"}, nil
}

// Addr implements Server: a URL.
func (d *Database) Addr() string { return d.url }

// Version implements Server.
func (d *Database) Version(context.Context) (string, error) {
	text, err := d.Server.Version()
	_, version, _ := strings.Cut(text, " ")
	return d.program + " " + strings.TrimSpace(version), err
}

// ResetStats implements Server.
func (d *Database) ResetStats(context.Context) error { return nil }

// Stats implements Server: what it counts is not read.
func (d *Database) Stats(context.Context) (Stats, error) { return nil, nil }

// CPU implements Server: it is not measured, a database has many processes.
func (d *Database) CPU(context.Context) (float64, error) { return 0, nil }

// Memory implements Server: it is not measured.
func (d *Database) Memory(context.Context) (float64, error) { return 0, nil }
