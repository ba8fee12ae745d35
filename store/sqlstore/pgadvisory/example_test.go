// SPDX-License-Identifier: Apache-2.0

package pgadvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/sqlstore"
	"github.com/fencelock/fencelock/store/sqlstore/pgadvisory"
)

// A Go service migrates a database that a Rails application migrates, too. Its lease keeps out the other Go processes, and the
// advisory lock keeps out Rails.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := sqlstore.Migrate(ctx, db, nil); err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.New(db, nil)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	rails := pgadvisory.Rails("app")
	err = locks.Do(ctx, "migrate app", func(ctx context.Context, _ *fencelock.Lease) error {
		return pgadvisory.Do(ctx, db, rails, nil, func(ctx context.Context) error {
			// ctx ends when the lease or the connection of the advisory lock is lost.
			_, err := pgadvisory.TryLock(ctx, db, rails, nil) // as Rails does
			fmt.Println("migrating, Rails is excluded:", errors.Is(err, pgadvisory.ErrHeld))
			return nil
		})
	})
	if err != nil {
		log.Fatal(err)
	}
}
