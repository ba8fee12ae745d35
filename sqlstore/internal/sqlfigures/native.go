// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"fmt"
)

// nativeLock is the lock that a database has itself: it hangs on a connection.
type nativeLock struct {
	lock, unlock string
}

var advisory = nativeLock{
	lock: "SELECT pg_advisory_lock(hashtext($1))", unlock: "SELECT pg_advisory_unlock(hashtext($1))",
}

var getLock = nativeLock{
	lock: "SELECT GET_LOCK(?, 60)", unlock: "SELECT RELEASE_LOCK(?)",
}

// held is a connection with its two statements prepared: the best case of both.
type held struct {
	conn         *sql.Conn
	lock, unlock *sql.Stmt
}

func (n nativeLock) on(ctx context.Context, db *sql.DB) (*held, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	h := &held{conn: conn}
	if h.lock, err = conn.PrepareContext(ctx, n.lock); err == nil {
		h.unlock, err = conn.PrepareContext(ctx, n.unlock)
	}
	return h, err
}

// turn locks, does the work and unlocks.
func (h *held) turn(ctx context.Context, name string, work func()) error {
	var ok sql.NullString
	if err := h.lock.QueryRowContext(ctx, name).Scan(&ok); err != nil {
		return fmt.Errorf("native lock: %w", err)
	}
	work()
	return h.unlock.QueryRowContext(context.WithoutCancel(ctx), name).Scan(&ok)
}
