// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/store/redisstore"
)

// ttl is how long the lock of a worker that is stopped stays taken.
const ttl = 3 * time.Second

// account is one row, in the database of both workers.
type account struct {
	id    int
	lock  string
	db    *sql.DB
	guard *sqlfence.Table // nil: no guard
}

// read and write are what most programs do. With a guard, each is a guarded
// transaction: the first raises the fence before it reads.

func (a *account) read(ctx context.Context) (balance int, err error) {
	const query = "SELECT balance FROM accounts WHERE id = $1"
	if a.guard == nil {
		err = a.db.QueryRowContext(ctx, query, a.id).Scan(&balance)
		return balance, err
	}
	err = a.guard.Do(ctx, a.db, a.lock, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, query, a.id).Scan(&balance)
	})
	return balance, err
}

func (a *account) write(ctx context.Context, balance int) error {
	const statement = "UPDATE accounts SET balance = $1 WHERE id = $2"
	if a.guard == nil {
		_, err := a.db.ExecContext(ctx, statement, balance, a.id)
		return err
	}
	return a.guard.Do(ctx, a.db, a.lock, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statement, balance, a.id)
		return err
	})
}

// worker is one of the two processes: it adds to the account, under the lock.
func worker(ctx context.Context, args []string) error {
	if len(args) != 6 {
		return errors.New("a worker is started by the story: worker NAME REDIS POSTGRES ACCOUNT AMOUNT GUARDED")
	}
	id, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	amount, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", args[2])
	if err != nil {
		return err
	}
	defer db.Close()
	a := &account{id: id, lock: fmt.Sprintf("accounts/%d", id), db: db}
	if args[5] == "yes" {
		a.guard, err = sqlfence.NewTable(sqlfence.PostgreSQL, nil)
		if err != nil {
			return err
		}
	}
	store, err := redisstore.Open(ctx, args[1], nil)
	if err != nil {
		return err
	}
	defer store.Close()
	locks, err := fencelock.New(store, &fencelock.Options{Owner: args[0], TTL: ttl})
	if err != nil {
		return err
	}
	defer locks.Close(context.WithoutCancel(ctx))
	err = add(ctx, locks, a, amount)
	if errors.Is(err, fence.ErrStale) {
		report("was refused: %v", first(err))
		err = add(ctx, locks, a, amount)
	}
	if errors.Is(err, fencelock.ErrLost) {
		report("is notified that its lease was lost")
		return nil
	}
	return err
}

// first returns the refusal inside an error.
func first(err error) error {
	var stale *fence.StaleError
	errors.As(err, &stale)
	return stale
}

// add reads, works for a while, and writes.
func add(ctx context.Context, locks *fencelock.Client, a *account, amount int) error {
	return locks.Do(ctx, a.lock, func(ctx context.Context, l *fencelock.Lease) error {
		report("holds the lock, token %d", l.Token())
		balance, err := a.read(ctx)
		if err != nil {
			return err
		}
		report("has read %d", balance)
		slowWork()
		// The context has ended, or is about to, in a worker that was stopped.
		// That helps only if it is seen before the write leaves. Here it never
		// is: the worker had made its last check before it was stopped.
		ctx = context.WithoutCancel(ctx)
		report("writes %d", balance+amount)
		if err := a.write(ctx, balance+amount); err != nil {
			return err
		}
		report("has written %d", balance+amount)
		return nil
	})
}

var orders = bufio.NewReader(os.Stdin)

// slowWork takes until the story ends it.
func slowWork() { _, _ = orders.ReadString('\n') }

// report prints what happened, for the story.
func report(format string, args ...any) { fmt.Printf(format+"\n", args...) }
