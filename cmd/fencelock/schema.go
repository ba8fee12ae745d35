// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencelock/fencelock/store/redisstore"
)

func (a *app) schemaCommand() *cobra.Command {
	var user string
	var grants bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the tables and the permissions that the store needs",
		Long: `Print what an administrator has to set up before locks can be kept, for review:

  databases   the statements that create the tables, and the permissions on them; for
              MySQL they begin with USE and the database of the URL
  Redis       the ACL rule of a user that can keep locks and nothing else; an existing
              user loses its other permissions

It changes nothing, even with migrate=true in the URL, by which a program creates the
tables itself. The ACL rule sets no password: give a new user one, with
ACL SETUSER app >PASSWORD. The other stores need no setup.

fencelock grants is short for fencelock schema --grants.

The exit code is 0, or 69 if the store did not answer.`,
		Example: `  fencelock schema --user app >locks.sql
  fencelock schema --grants --user app >grants.sql`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.printSchema(cmd.Context(), user, grants) },
	}
	cmd.Flags().BoolVar(&grants, "grants", false, "print the permissions alone, for tables that exist")
	cmd.Flags().StringVar(&user, "user", "", userOfServer)
	return cmd
}

const userOfServer = "the user of the server, as applications log in (default USER)"

// grantsCommand is what a database administrator types who needs the permissions. The help
// lists schema, which prints both.
func (a *app) grantsCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "grants",
		Short:   "Print the permissions that the store needs; as schema --grants",
		Long:    "Print the permissions that the store needs, for tables that exist, as fencelock schema --grants does.",
		Example: "  fencelock grants --user app >grants.sql",
		Hidden:  true,
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.printSchema(cmd.Context(), user, true) },
	}
	cmd.Flags().StringVar(&user, "user", "", userOfServer)
	return cmd
}

// printSchema asks the store, which knows its namespace and the kind of its server. With
// grants set it leaves the tables out.
func (a *app) printSchema(ctx context.Context, user string, grants bool) error {
	from, err := a.urlOfStore()
	if err != nil {
		return err
	}
	if scheme, _, _ := strings.Cut(from, ":"); strings.HasPrefix(scheme, "redis") && !strings.HasPrefix(scheme, "redisson") || strings.HasPrefix(scheme, "valkey") {
		return a.printACL(from, user)
	}
	store, err := a.openToRead(ctx, withoutMigrate(from), a.ns)
	if err != nil {
		return err
	}
	switch s := store.OpenedStore.(type) {
	case interface {
		Schema() string
		Grants(role string) string
	}:
		tables := s.Schema() + "\n"
		if grants {
			tables = ""
		}
		server := store.Caps().Engine
		_, err = fmt.Fprint(a.out, use(server, from), tables, s.Grants(sqlUser(server, user)))
	case interface{ ACL(user string) string }:
		_, err = fmt.Fprintf(a.out, "ACL SETUSER %s\n", s.ACL(cmp.Or(user, "USER")))
	default:
		if strings.HasPrefix(store.Caps().Engine, "quorum") {
			a.note("each server of a quorum is set up by itself: run fencelock schema with redis://HOST")
			break
		}
		a.note("%s needs no setup", store.Caps().Engine)
	}
	if closed := store.Close(); err == nil {
		err = closed
	}
	return err
}

// printACL prints the rule of a user of Redis, which needs no server: it depends on the namespace alone.
func (a *app) printACL(from, user string) error {
	s, err := redisstore.FromURL(withNamespace(from, a.ns), nil)
	if err != nil {
		return withCode(exitUsage, err)
	}
	_, err = fmt.Fprintf(a.out, "ACL SETUSER %s\n", s.ACL(cmp.Or(user, "USER")))
	return errors.Join(err, s.Close())
}

// withoutMigrate returns the URL of a store that creates no tables.
func withoutMigrate(rawURL string) string {
	base, query, found := strings.Cut(rawURL, "?")
	if !found {
		return rawURL
	}
	kept := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return name == "migrate"
	})
	return base + "?" + strings.Join(kept, "&")
}

// use returns the statement that chooses the database of a URL. PostgreSQL needs none: a
// connection always has a database there. On MySQL it may have none, and then no statement
// finds a table.
func use(server, rawURL string) string {
	u, err := url.Parse(rawURL)
	if server == "postgres" || err != nil {
		return ""
	}
	return "USE `" + strings.ReplaceAll(strings.Trim(u.Path, "/"), "`", "``") + "`;\n\n"
}

// sqlUser returns a user as GRANT takes it: quoted, because its name may be a word of SQL, unless
// it was given with quotes. On MySQL a user may have a host: app@10.0.0.%.
func sqlUser(server, user string) string {
	switch {
	case user == "":
		return "USER"
	case strings.ContainsAny(user, "'\"`"):
		return user
	case server == "postgres":
		return `"` + user + `"`
	}
	name, host := user, "%"
	if at := strings.LastIndex(user, "@"); at >= 0 {
		name, host = user[:at], user[at+1:]
	}
	return "'" + name + "'@'" + host + "'"
}
