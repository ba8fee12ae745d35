// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

func openLocks(ctx context.Context, db *sql.DB) (*fencelock.Client, error) {
	if err := sqlstore.Migrate(ctx, db, nil); err != nil { // or apply sqlstore.Schema yourself
		return nil, err
	}
	store, err := sqlstore.New(db, nil)
	if err != nil {
		return nil, err
	}
	findings, err := store.Check(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range findings {
		if f.Severity == driver.Danger {
			return nil, fmt.Errorf("%v", f)
		}
	}
	return fencelock.New(store, nil)
}

// TestDocumented runs what docs/sql.md shows, on servers as they come.
func TestDocumented(t *testing.T) {
	alone(t, func(t *testing.T, k kind, server *servers.Server) {
		c, err := openLocks(ctxb, k.connect(t, server.Port))
		must.OK(t, err)
		t.Cleanup(func() { c.Close(ctxb) })
		must.OK(t, lock(t, c, "orders/42").Unlock(ctxb))
		if got := c.Guarantees(); !got.SurvivesCrash || got.Fencing.String() != "strict" {
			t.Errorf("guarantees: %v", got)
		}
	})
}

// TestDocumentedGrants compares docs/sql.md with what Grants prints.
func TestDocumentedGrants(t *testing.T) {
	db, err := sql.Open("pgx", "postgres://h/db")
	must.OK(t, err)
	defer db.Close()
	s, err := sqlstore.New(db, nil)
	must.OK(t, err)
	page, err := os.ReadFile("../../docs/sql.md")
	must.OK(t, err)
	if !strings.Contains(string(page), s.Grants("app")) {
		t.Errorf("docs/sql.md does not have\n%s", s.Grants("app"))
	}
}

// TestExamples runs the examples of the package on a server.
func TestExamples(t *testing.T) {
	server := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres("fsync=off") })
	servers.Example(t, Example, "DATABASE_URL", pgSource(server.Port)+"&migrate=true&accept=fsync", "holding orders/42\n")
	servers.Example(t, ExampleNew, "DATABASE_URL", pgSource(server.Port), "holding orders/42\n")
}
