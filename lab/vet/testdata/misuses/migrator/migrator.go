// SPDX-License-Identifier: Apache-2.0

// Command migrator changes a schema at startup.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

var steps []string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(context.Background())
	if err := errors.Join(migrate(ctx, locks, nil), check(ctx, locks, nil), migrateTwice(ctx, locks, nil)); err != nil {
		log.Print(err)
	}
}

// migrate does not stop when the lock is lost: the statements run with the outer context.
func migrate(ctx context.Context, locks *fencelock.Client, db *sql.DB) error {
	return locks.Do(ctx, "schema", func(lctx context.Context, l *fencelock.Lease) error {
		tx, err := db.BeginTx(ctx, nil) // misuse: outerctx
		if err != nil {
			return err
		}
		defer tx.Rollback()
		for i, step := range steps {
			if _, err := tx.ExecContext(lctx, step); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		return tx.Commit()
	})
}

// check returns with the lock if the schema is up to date.
func check(ctx context.Context, locks *fencelock.Client, db *sql.DB) error {
	lease, err := locks.Mutex("schema").Lock(ctx) // misuse: leaseleak
	if err != nil {
		return err
	}
	var version int
	if err := db.QueryRowContext(lease.Context(), "SELECT version FROM schema").Scan(&version); err != nil {
		return errors.Join(err, lease.Unlock(ctx))
	}
	if version == len(steps) {
		return nil
	}
	for _, step := range steps[version:] {
		if _, err := db.ExecContext(lease.Context(), step); err != nil {
			return errors.Join(err, lease.Unlock(ctx))
		}
	}
	return lease.Unlock(ctx)
}

// migrateTwice locks what it holds.
func migrateTwice(ctx context.Context, locks *fencelock.Client, db *sql.DB) error {
	lease, err := locks.Mutex("schema").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)                                                                    // misuse: unlockerr
	return locks.Mutex("schema").Do(ctx, func(ctx context.Context, _ *fencelock.Lease) error { // misuse: selflock
		_, err := db.ExecContext(ctx, "ANALYZE")
		return err
	})
}

// wait is right: the outer context limits the waiting, and the work runs with that of the lease.
func wait(ctx context.Context, locks *fencelock.Client, db *sql.DB) error {
	short, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	lease, err := locks.Mutex("schema").Lock(short)
	if err != nil {
		return err
	}
	work, stop := lease.WithContext(ctx)
	defer stop()
	_, err = db.ExecContext(work, "VACUUM")
	return errors.Join(err, lease.Unlock(ctx))
}

var _ = wait
