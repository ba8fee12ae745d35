// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guarded

import (
	"context"
	"database/sql"
	"testing"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// startMariaDB starts MariaDB with the row and the table of fences.
func startMariaDB(t *testing.T) string {
	t.Helper()
	server := servers.Test(t, func() (*servers.Server, error) { return servers.MariaDB() })
	url := "root@tcp(" + server.Addr + ")/test"
	db, err := sql.Open("mysql", url)
	must.OK(t, err)
	defer db.Close()
	table, err := sqlfence.NewTable(sqlfence.MySQL, nil)
	must.OK(t, err)
	for _, statement := range []string{createValue, insertValue, table.Schema()} {
		_, err := db.ExecContext(t.Context(), statement)
		must.OK(t, err)
	}
	return url
}

// gormValue is the row.
type gormValue struct {
	ID    int64
	V     string
	Fence gormfence.Token
}

func (gormValue) TableName() string { return "guarded" }

func (gormValue) FenceLock() string { return lock }

// openGorm opens GORM with the plugin, and reads past it.
func openGorm(d gorm.Dialector) (*gorm.DB, *fencetest.Value, error) {
	db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, err
	}
	return db, &fencetest.Value{Read: func(ctx context.Context) (v string, err error) {
		err = db.WithContext(ctx).Raw(readSQL).Scan(&v).Error
		return v, err
	}}, db.Use(gormfence.New(&gormValue{}))
}

func gormField(dialect func(url string) gorm.Dialector) func(context.Context, string) (*fencetest.Value, error) {
	return func(_ context.Context, url string) (*fencetest.Value, error) {
		db, value, err := openGorm(dialect(url))
		if err != nil {
			return nil, err
		}
		value.Enter = func(ctx context.Context) (string, error) {
			row := gormValue{ID: 1}
			err := gormfence.Enter(db.WithContext(ctx), &row)
			return row.V, err
		}
		value.Write = func(ctx context.Context, v string) error {
			return db.WithContext(ctx).Model(&gormValue{ID: 1}).Update("v", v).Error
		}
		return value, nil
	}
}

var (
	gormPostgres = guard{"gormfence-postgres", startPostgres, gormField(gormpostgres.Open)}
	gormMariaDB  = guard{"gormfence-mariadb", startMariaDB, gormField(gormmysql.Open)}
)

var gormTable = guard{"gormfence-table", startMariaDB, func(_ context.Context, url string) (*fencetest.Value, error) {
	db, value, err := openGorm(gormmysql.Open(url))
	if err != nil {
		return nil, err
	}
	table, err := gormfence.NewTable(db, nil)
	if err != nil {
		return nil, err
	}
	value.Enter = func(ctx context.Context) (string, error) {
		row := gormValue{ID: 1}
		err := table.Do(db.WithContext(ctx), lock, func(tx *gorm.DB) error { return tx.First(&row).Error })
		return row.V, err
	}
	value.Write = func(ctx context.Context, v string) error {
		return table.Do(db.WithContext(ctx), lock, func(tx *gorm.DB) error {
			return tx.Exec("UPDATE guarded SET v = ? WHERE id = 1", v).Error
		})
	}
	return value, nil
}}
