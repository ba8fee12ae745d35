// SPDX-License-Identifier: Apache-2.0

// Package guarded imports a guard, so a token that is only printed says nothing about its statements.
package guarded

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence/sqlfence"
)

func pack(ctx context.Context, locks *fencelock.Client, begin func(*sqlfence.Table) *sql.Tx, guard *sqlfence.Table) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Token())
		_, err := begin(guard).ExecContext(ctx, "UPDATE orders SET total = 1 WHERE id = 42")
		return err
	})
}
