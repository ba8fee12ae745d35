// SPDX-License-Identifier: Apache-2.0

package gormfence_test

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/utils/tests"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/internal/must"
)

// What the guard does on real servers is proved in lab/e2e; here is what can be seen
// without one.

func open(t *testing.T) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{DryRun: true})
	must.OK(t, err)
	return db
}

// unfenced has the method and no field.
type unfenced struct{ ID int64 }

func (unfenced) FenceLock() string { return "a" }

// keyless has no primary key.
type keyless struct {
	V     string
	Fence gormfence.Token
}

func (keyless) FenceLock() string { return "a" }

// methodless has the field and no method.
type methodless struct {
	ID    int64
	V     string
	Fence gormfence.Token
}

func (methodless) TableName() string { return "orders" }

// elsewhere has a schema in its table's name.
type elsewhere struct {
	ID    int64
	Fence gormfence.Token
}

func (elsewhere) TableName() string { return "sales.jobs" }

func (elsewhere) FenceLock() string { return "jobs" }

func TestBadModelsAreErrors(t *testing.T) {
	for want, models := range map[string][]gormfence.Fenced{
		"without models":                        nil,
		"no field of type gormfence.Token":      {unfenced{}},
		"no primary key":                        {&keyless{}},
		"may not write its field Fence":         {&readOnly{}},
		"unsupported data type":                 {number(1)},
		"*gormfence_test.unfenced has no field": {&Order{}, &unfenced{}},
	} {
		if err := open(t).Use(gormfence.New(models...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if _, err := gormfence.NewTable(open(t), nil); err == nil || !strings.Contains(err.Error(), `"dummy"`) {
		t.Errorf("a table in an unknown database: got %v", err)
	}
}

type number int

func (number) FenceLock() string { return "a" }

// TestForgottenPluginIsAnError: the field alone guards nothing, and says so.
func TestForgottenPluginIsAnError(t *testing.T) {
	db := open(t)
	ctx := fence.With(t.Context(), fence.Mark{Lock: "orders/42", Token: 768})
	order := &Order{ID: 42}
	for what, err := range map[string]error{
		"Update": db.WithContext(ctx).Model(order).Update("state", "paid").Error,
		"Delete": db.WithContext(ctx).Delete(order).Error,
		"hidden": db.WithContext(ctx).Unscoped().Model(order).UpdateColumn("state", "paid").Error,
	} {
		if !errors.Is(err, gormfence.ErrUnguarded) || !strings.Contains(err.Error(), "db.Use(gormfence.New(&Order{}))") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// TestModelsThatAreNotListed: in another table, without the method, or in a table with a schema.
func TestModelsThatAreNotListed(t *testing.T) {
	db := open(t)
	must.OK(t, db.Use(gormfence.New(&Order{}, &elsewhere{})))
	db = db.WithContext(fence.With(fence.With(t.Context(), fence.Mark{Lock: "orders/42", Token: 768}), fence.Mark{Lock: "jobs", Token: 768}))
	for what, tt := range map[string]struct {
		err  error
		want string
	}{
		"not listed":        {db.Model(&other{ID: 42}).Update("v", "x").Error, "other is not listed"},
		"no method":         {db.Model(&methodless{ID: 42}).Update("v", "x").Error, "needs its method FenceLock"},
		"no schema":         {db.Table("jobs").Where("id = 1").Update("v", "x").Error, "name its schema"}, // the connection may have it
		"table of a schema": {db.Table("sales.jobs").Where("id = 1").Update("v", "x").Error, "without a gormfence.Token"},
	} {
		if !errors.Is(tt.err, gormfence.ErrUnguarded) || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: got %v, want it to say %q", what, tt.err, tt.want)
		}
	}
	must.OK(t, db.Model(&elsewhere{ID: 1}).UpdateColumn("fence", 0).Error)
	must.OK(t, db.Table("hr.jobs").Where("id = 1").Update("v", "x").Error) // another one
}

type other struct {
	ID    int64
	V     string
	Fence gormfence.Token
}

func (other) FenceLock() string { return "orders/42" }

// TestEnterNeedsATokenAndAField, before anything is sent.
func TestEnterNeedsATokenAndAField(t *testing.T) {
	db := open(t)
	must.OK(t, db.Use(gormfence.New(&Order{})))
	if err := gormfence.Enter(db, &Order{ID: 42}); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("no token: got %v", err)
	}
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 768})
	if err := gormfence.Enter(db.WithContext(ctx), &unfenced{ID: 1}); !errors.Is(err, gormfence.ErrUnguarded) {
		t.Errorf("no field: got %v", err)
	}
	if err := gormfence.Enter(db.WithContext(ctx), &Order{ID: 42}); !errors.Is(err, fence.ErrWrongLock) {
		t.Errorf("another lock: got %v", err)
	}
}
