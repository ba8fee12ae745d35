// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
)

// bellConn is a connection that is ours alone. It never goes back to the pool: it has named
// locks, or settings.
type bellConn struct {
	*sql.Conn
	statements map[string]*sql.Stmt
}

func (c *bellConn) discard() {
	_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = c.Close()
}

// statement returns a statement of the store, prepared where the driver does not do that.
func (c *bellConn) statement(ctx context.Context, s *Store, name string) (*sql.Stmt, error) {
	if st := c.statements[name]; st != nil {
		return st, nil
	}
	st, err := c.PrepareContext(ctx, s.texts[name])
	if err == nil {
		c.statements[name] = st
	}
	return st, err
}

// row runs a statement on the connection and reads its row.
func (c *bellConn) row(ctx context.Context, s *Store, name string, args, to []any) error {
	st, err := c.statement(ctx, s, name)
	if err != nil {
		return err
	}
	return st.QueryRowContext(ctx, args...).Scan(to...)
}

// changed runs a statement on the connection and returns how many rows it changed.
func (c *bellConn) changed(ctx context.Context, s *Store, name string, args ...any) (int64, error) {
	st, err := c.statement(ctx, s, name)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
