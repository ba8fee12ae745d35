// SPDX-License-Identifier: Apache-2.0

package sqlfence_test

import (
	"database/sql"
	"database/sql/driver"
)

func init() { sql.Register("pgx", yes{}) }

// yes is a database that executes every statement and changes one row with it, for the
// examples: this module has no driver. Package lab/e2e runs the same calls on real servers.
type yes struct{}

// Open implements driver.Driver.
func (yes) Open(string) (driver.Conn, error) { return yes{}, nil }

// Prepare implements driver.Conn.
func (yes) Prepare(string) (driver.Stmt, error) { return yes{}, nil }

// Begin implements driver.Conn.
func (yes) Begin() (driver.Tx, error) { return yes{}, nil }

// Close implements driver.Conn and driver.Stmt.
func (yes) Close() error { return nil }

// Commit implements driver.Tx.
func (yes) Commit() error { return nil }

// Rollback implements driver.Tx.
func (yes) Rollback() error { return nil }

// NumInput implements driver.Stmt.
func (yes) NumInput() int { return -1 }

// Exec implements driver.Stmt.
func (yes) Exec([]driver.Value) (driver.Result, error) { return driver.RowsAffected(1), nil }

// Query implements driver.Stmt.
func (yes) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }
