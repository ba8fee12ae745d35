// SPDX-License-Identifier: Apache-2.0

package gormfence_test

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/schema"
	"gorm.io/gorm/utils/tests"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/internal/must"
)

// TestReplacedCallbackIsAnError: the guard is around GORM's own callbacks, and went with them.
func TestReplacedCallbackIsAnError(t *testing.T) {
	db := open(t)
	must.OK(t, db.Use(gormfence.New(&Order{})))
	must.OK(t, db.Callback().Update().Replace("gorm:update", callbacks.Update(&callbacks.Config{})))
	must.OK(t, db.Callback().Delete().Replace("gorm:delete", callbacks.Delete(&callbacks.Config{})))
	db = db.WithContext(fence.With(t.Context(), fence.Mark{Lock: "orders/42", Token: 768}))
	for what, err := range map[string]error{
		"Update": db.Model(&Order{ID: 42}).Update("state", "paid").Error,
		"Delete": db.Delete(&Order{ID: 42}).Error,
	} {
		if !errors.Is(err, gormfence.ErrUnguarded) || !strings.Contains(err.Error(), "after the other plugins") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// TestMissingCallbackIsAnError: there is nothing to be around.
func TestMissingCallbackIsAnError(t *testing.T) {
	db, err := gorm.Open(bare{}, &gorm.Config{DryRun: true})
	must.OK(t, err)
	if err := db.Use(gormfence.New(&Order{})); err == nil || !strings.Contains(err.Error(), "gorm:update") {
		t.Errorf("got %v", err)
	}
}

// bare is a dialector that registers no callbacks.
type bare struct{ tests.DummyDialector }

// Initialize implements gorm.Dialector.
func (bare) Initialize(*gorm.DB) error { return nil }

// TestOnePluginForTwoHandles: each has its own names of the tables.
func TestOnePluginForTwoHandles(t *testing.T) {
	plugin := gormfence.New(&Order{})
	var first *gorm.DB
	for _, prefix := range []string{"a_", "b_"} {
		db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{DryRun: true, NamingStrategy: schema.NamingStrategy{TablePrefix: prefix}})
		must.OK(t, err)
		must.OK(t, db.Use(plugin))
		if first == nil {
			first = db
		}
	}
	if err := first.Table("a_orders").Where("id = 42").Update("state", "paid").Error; !errors.Is(err, gormfence.ErrUnguarded) {
		t.Errorf("the table of the first handle: got %v", err)
	}
}

// TestEnterNeedsAPointer: it reads into the row.
func TestEnterNeedsAPointer(t *testing.T) {
	db := open(t)
	must.OK(t, db.Use(gormfence.New(&Order{})))
	ctx := fence.With(t.Context(), fence.Mark{Lock: "orders/42", Token: 768})
	if err := gormfence.Enter(db.WithContext(ctx), Order{ID: 42}); err == nil || !strings.Contains(err.Error(), "pointer") {
		t.Errorf("got %v", err)
	}
}

// readOnly has a fence that GORM leaves out of new rows.
type readOnly struct {
	ID    int64
	Fence gormfence.Token `gorm:"->"`
}

func (readOnly) FenceLock() string { return "a" }
