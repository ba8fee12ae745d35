// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// A URL such as postgres://app@localhost:5432/app?migrate=true names the database.
func Example() {
	ctx := context.Background()
	store, err := sqlstore.Open(ctx, os.Getenv("DATABASE_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A program that has a handle on the database already shares it with the locks.
func ExampleNew() {
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
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	lease, err := locks.Mutex("orders/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", lease.Name())
	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
}
