// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"fmt"
	"strings"
)

//go:embed schema/postgres.sql
var postgresSchema string

//go:embed schema/mysql.sql
var mysqlSchema string

// Schema returns the statements that create the tables, to be read and applied by
// the operator of the database. The namespace is Options.Namespace; empty for the default.
// It panics if there is no such dialect.
//
// Migrate adds a compression method that not every server has; the text names it in a comment.
func Schema(d Dialect, namespace string) string { return schema(d, prefixOf(namespace), "") }

// schema is Schema with the compression method of the queue.
func schema(d Dialect, prefix, compression string) string {
	switch d {
	case PostgreSQL:
		return strings.NewReplacer("{p}", prefix, "{lz4}", compression).Replace(postgresSchema)
	case MySQL:
		return strings.ReplaceAll(mysqlSchema, "{p}", prefix)
	}
	panic(fmt.Sprintf("sqlstore: Schema of %v: choose PostgreSQL or MySQL", d))
}

// Schema returns the statements that create the tables of this store, as the function does.
func (s *Store) Schema() string { return Schema(s.dialect, s.opts.Namespace) }

// Migrate creates the tables if they are not there. It needs the right to create
// tables, which the store itself does not: Schema is for databases where another team
// applies changes. It is safe to call in every process at start.
func Migrate(ctx context.Context, db *sql.DB, opts *Options) error {
	s, err := New(db, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx)
}

// Migrate creates the tables of the store if they are not there, as the function does.
// It is for stores that own their handle, as those of FromURL do.
func (s *Store) Migrate(ctx context.Context) error {
	plain := statementsOf(s.Schema())
	for i, statement := range statementsOf(schema(s.dialect, s.opts.prefix(), " COMPRESSION lz4")) {
		err := s.run(ctx, "migrate", func() error {
			_, err := s.db.ExecContext(ctx, statement)
			if among(uncompressed, code(err)) {
				_, err = s.db.ExecContext(ctx, plain[i])
			}
			if among(raced, code(err)) {
				// Two processes created it at the same time, and the other was
				// faster: PostgreSQL reports it in several ways.
				_, err = s.db.ExecContext(ctx, plain[i])
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// uncompressed are the codes of a server that does not know a compression method: a syntax
// error before PostgreSQL 14, and an unsupported feature if it was built without lz4.
var uncompressed = []string{"42601", "0A000"}

// raced are the codes of a table that was created by another at the same moment.
var raced = []string{"23505", "42P07", "42710"}

// statementsOf splits a schema into its statements, without comments.
func statementsOf(schema string) (all []string) {
	var text strings.Builder
	for line := range strings.Lines(schema) {
		code, _, _ := strings.Cut(line, "--")
		text.WriteString(strings.TrimRight(code, " \n") + "\n")
	}
	for part := range strings.SplitSeq(text.String(), ";") {
		part = strings.TrimSpace(part)
		if part != "" {
			all = append(all, part)
		}
	}
	return all
}

// Grants returns the statements that let a role do what the store needs on its tables,
// and nothing else. They are for the owner of the tables. Of MySQL the role is a user
// with its host: 'locks'@'%'.
func (s *Store) Grants(role string) string {
	var b strings.Builder
	if schema, _, ok := strings.Cut(s.opts.prefix(), "."); ok && s.dialect == PostgreSQL {
		fmt.Fprintf(&b, "GRANT USAGE ON SCHEMA %s TO %s;\n", schema, role)
	}
	rights := map[string]string{
		"incarnation": "SELECT, INSERT, UPDATE",
		"session":     "SELECT, INSERT, UPDATE, DELETE",
		"lock":        "SELECT, INSERT, UPDATE, DELETE",
	}
	for _, table := range []string{"incarnation", "session", "lock"} {
		fmt.Fprintf(&b, "GRANT %s ON %s%s TO %s;\n", rights[table], s.opts.prefix(), table, role)
	}
	return b.String()
}
