// SPDX-License-Identifier: Apache-2.0

// Package ledger books entries.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/fencelock/fencelock"
)

type Ledger struct {
	db    *sql.DB
	locks *fencelock.Client
	last  map[string]fencelock.Token
}

type account struct {
	balance int64
	fence   fencelock.Token
}

func (g *Ledger) account(ctx context.Context, id string) (account, error)   { return account{}, nil }
func (g *Ledger) write(ctx context.Context, id string, balance int64) error { return nil }

// Book decides in Go whether it is still the holder.
func (g *Ledger) Book(ctx context.Context, id string, cents int64) error {
	lease, err := g.locks.Mutex("accounts/" + id).Lock(ctx)
	if err != nil {
		return err
	}
	a, err := g.account(lease.Context(), id)
	if err == nil && a.fence <= lease.Token() { // misuse: tokencheck
		err = g.write(lease.Context(), id, a.balance+cents)
	}
	return errors.Join(err, lease.Unlock(ctx))
}

// Newer keeps the last token in the memory of the process.
func (g *Ledger) Newer(ctx context.Context, id string, cents int64) error {
	return g.locks.Do(ctx, "accounts/"+id, func(ctx context.Context, l *fencelock.Lease) error {
		if last, ok := g.last[id]; ok && last > l.Token() { // misuse: tokencheck
			return fmt.Errorf("account %s: stale", id)
		}
		return g.write(ctx, id, cents)
	})
}

// Move locks two accounts and drops both errors.
func (g *Ledger) Move(ctx context.Context, from, to string, cents int64) error {
	both, err := g.locks.LockAll(ctx, []string{"accounts/" + from, "accounts/" + to})
	if err != nil {
		return err
	}
	defer both.Unlock(context.Background()) // misuse: unlockerr
	if err := g.write(ctx, from, -cents); err != nil {
		return err
	}
	return g.write(ctx, to, cents)
}

// Log prints the token and writes without it.
func (g *Ledger) Log(ctx context.Context, id string) error {
	lease, err := g.locks.Mutex("accounts/" + id).Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	tx, err := g.db.BeginTx(lease.Context(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	log.Printf("account %s, token %d", id, lease.Token()) // misuse: tokencheck
	if _, err := tx.Exec("UPDATE accounts SET closed = true WHERE id = $1", id); err != nil {
		return err
	}
	return tx.Commit()
}

// Guarded is right: the token is in the statement, and the comparison only spares it.
func (g *Ledger) Guarded(ctx context.Context, id string, cents int64) error {
	return g.locks.Do(ctx, "accounts/"+id, func(ctx context.Context, l *fencelock.Lease) error {
		a, err := g.account(ctx, id)
		if err != nil {
			return err
		}
		if a.fence > l.Token() {
			return errors.New("stale")
		}
		res, err := g.db.ExecContext(ctx, "UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2", a.balance+cents, int64(l.Token()), id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errors.New("rejected"))
		}
		return nil
	})
}
