// SPDX-License-Identifier: Apache-2.0

// Package gated wraps a database driver so that every statement of a
// transaction, its begin and its commit included, is a step of fencetest.
package gated

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/fencelock/fencelock/fence/fencetest"
)

// Wrap returns a connector whose connections say fencetest.Step before every
// round trip. It takes statements without preparing them; the driver must be set
// up for that.
func Wrap(c driver.Connector) driver.Connector { return connector{c} }

type connector struct{ driver.Connector }

// Connect connects and wraps the connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{inner}, nil
}

type conn struct{ driver.Conn }

var errPrepared = errors.New("gated: this driver prepares statements; set it up not to")

// Prepare is refused, so that no statement goes past Step.
func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errPrepared }

// BeginTx is a step; so is the end of the transaction, under the same context.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	fencetest.Step(ctx)
	inner, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &tx{inner, ctx}, nil
}

// ExecContext is a step.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	fencetest.Step(ctx)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// QueryContext is a step.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	fencetest.Step(ctx)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

// ResetSession passes on.
func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid passes on.
func (c *conn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

type tx struct {
	driver.Tx
	ctx context.Context
}

// Commit is a step.
func (t *tx) Commit() error {
	fencetest.Step(t.ctx)
	return t.Tx.Commit()
}
