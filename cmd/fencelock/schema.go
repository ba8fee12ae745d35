// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) schemaCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the tables and the permissions that the store needs",
		Long: `Print what an administrator has to set up before locks can be kept, for review:

  databases   the statements that create the tables, and the permissions on them
  Redis       the ACL rule of a user that can keep locks and nothing else; an existing
              user loses its other permissions

It changes nothing. To let fencelock create the tables itself, add migrate=true to the
URL. The other stores need no setup.

The exit code is 0, or 69 if the store did not answer.`,
		Example: `  fencelock schema --user app >locks.sql`,
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.printSchema(cmd.Context(), user) },
	}
	cmd.Flags().StringVar(&user, "user", "", "the user of the server, as applications log in (default USER)")
	return cmd
}

// printSchema asks the store, which knows its namespace and the kind of its server.
func (a *app) printSchema(ctx context.Context, user string) error {
	url, err := a.urlOfStore()
	if err != nil {
		return err
	}
	store, err := a.openToRead(ctx, url, a.ns)
	if err != nil {
		return err
	}
	user = cmp.Or(user, "USER")
	switch s := store.OpenedStore.(type) {
	case interface {
		Schema() string
		Grants(role string) string
	}:
		_, err = fmt.Fprintf(a.out, "%s\n%s", s.Schema(), s.Grants(user))
	case interface{ ACL(user string) string }:
		_, err = fmt.Fprintf(a.out, "ACL SETUSER %s\n", s.ACL(user))
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
