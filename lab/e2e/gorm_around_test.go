// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/internal/must"
)

// What GORM and other plugins do around the one statement that has the condition.

// cart is guarded, and has rows in tables that are not.
type cart struct {
	ID        int64
	V         string
	Fence     gormfence.Token
	DeletedAt gorm.DeletedAt
	Items     []cartItem  `gorm:"foreignKey:CartID"`
	Labels    []cartLabel `gorm:"many2many:cart_cart_labels;joinForeignKey:cart_id;joinReferences:label_id"`
}

type cartItem struct {
	ID     int64
	CartID int64
}

type cartLabel struct{ ID int64 }

func (cart) FenceLock() string { return formsLock }

// carts opens GORM for them, and makes their tables.
func carts(t *testing.T, e *database) *forms {
	t.Helper()
	kind := map[string]string{"postgres": "timestamp"}[e.name]
	if kind == "" {
		kind = "datetime(6)"
	}
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS carts (id BIGINT PRIMARY KEY, v VARCHAR(100), fence BIGINT, deleted_at " + kind + " NULL)",
		"CREATE TABLE IF NOT EXISTS cart_items (id BIGINT PRIMARY KEY, cart_id BIGINT)",
		"CREATE TABLE IF NOT EXISTS cart_labels (id BIGINT PRIMARY KEY)",
		"CREATE TABLE IF NOT EXISTS cart_cart_labels (cart_id BIGINT, label_id BIGINT, PRIMARY KEY (cart_id, label_id))",
	} {
		_, err := e.db.ExecContext(t.Context(), statement)
		must.OK(t, err)
	}
	db, err := e.gormOn(e.db, gorm.Config{}, &cart{})
	must.OK(t, err)
	return &forms{db, t, e}
}

// cart makes one that has seen a token.
func (f *forms) cart(token int64) *cart {
	f.t.Helper()
	c := &cart{ID: f.e.rows.Add(1)}
	must.OK(f.t, f.with(token).Create(c).Error)
	return c
}

// number asks the database, past GORM.
func (f *forms) number(what string, id int64) (n int64) {
	f.t.Helper()
	must.OK(f.t, f.e.db.QueryRowContext(f.t.Context(), f.e.sql("SELECT "+what+" = $1"), id).Scan(&n))
	return n
}

// TestGormUpdateOfAssociationsAloneIsGuarded: GORM has no column to set then and would send no
// update, and nothing would reject the rows of the other tables.
func TestGormUpdateOfAssociationsAloneIsGuarded(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := carts(t, e)
		for name, form := range map[string]func(db *gorm.DB, c *cart) error{
			"Append to many": func(db *gorm.DB, c *cart) error {
				return db.Model(c).Association("Items").Append(&cartItem{ID: c.ID})
			},
			"Append to many of many": func(db *gorm.DB, c *cart) error {
				return db.Model(c).Association("Labels").Append(&cartLabel{ID: c.ID})
			},
			"Replace": func(db *gorm.DB, c *cart) error {
				return db.Model(c).Association("Labels").Replace(&cartLabel{ID: c.ID})
			},
			"Updates": func(db *gorm.DB, c *cart) error { c.Items = []cartItem{{ID: c.ID}}; return db.Updates(c).Error },
		} {
			c := f.cart(512)
			rows := func() int64 {
				return f.number("COUNT(*) FROM cart_items WHERE cart_id", c.ID) + f.number("COUNT(*) FROM cart_cart_labels WHERE cart_id", c.ID)
			}
			if err := form(f.with(511), &cart{ID: c.ID}); !errors.Is(err, fence.ErrStale) || rows() != 0 {
				t.Errorf("%s with an older token: got %v, and %d rows", name, err, rows())
			}
			err := form(f.with(768), &cart{ID: c.ID})
			if token := f.number("fence FROM carts WHERE id", c.ID); err != nil || rows() != 1 || token != 768 {
				t.Errorf("%s: got %v, %d rows, fence %d", name, err, rows(), token)
			}
		}
	})
}

// TestGormRaisingWritesNoAssociations: what a row was read with may have been deleted since.
func TestGormRaisingWritesNoAssociations(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := carts(t, e)
		for name, raise := range map[string]func(db *gorm.DB, c *cart) error{
			"Enter":  func(db *gorm.DB, c *cart) error { return gormfence.Enter(db, c) },
			"Delete": func(db *gorm.DB, c *cart) error { return db.Delete(c).Error },
		} {
			c := f.cart(512)
			c.Items = []cartItem{{ID: c.ID, CartID: c.ID}} // as it was read
			must.OK(t, raise(f.with(768), c))
			if n := f.number("COUNT(*) FROM cart_items WHERE cart_id", c.ID); n != 0 {
				t.Errorf("%s made %d rows", name, n)
			}
		}
	})
}

// TestGormEveryNewRowHasTheTokenOfItsHolder: an older holder may know the key and update the row.
func TestGormEveryNewRowHasTheTokenOfItsHolder(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := carts(t, e)
		for name, create := range map[string]func(db *gorm.DB, id int64) error{
			"Select":              func(db *gorm.DB, id int64) error { return db.Select("ID", "V").Create(&cart{ID: id}).Error },
			"Omit":                func(db *gorm.DB, id int64) error { return db.Omit("V", "Fence").Create(&cart{ID: id}).Error },
			"Omit with the table": func(db *gorm.DB, id int64) error { return db.Omit("carts.fence").Create(&cart{ID: id}).Error },
			"a map":               func(db *gorm.DB, id int64) error { return db.Model(&cart{}).Create(map[string]any{"id": id}).Error },
			"a pointer to a map": func(db *gorm.DB, id int64) error {
				return db.Model(&cart{}).Create(&map[string]any{"ID": id, "Fence": 1}).Error
			},
			"a pointer to maps": func(db *gorm.DB, id int64) error {
				return db.Model(cart{}).Create(&[]map[string]any{{"id": id, "fence": 1}}).Error
			},
			"a map and Select": func(db *gorm.DB, id int64) error {
				return db.Model(cart{}).Select("id").Create(map[string]any{"id": id}).Error
			},
		} {
			id := e.rows.Add(1)
			if err := create(f.with(768), id); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := f.with(512).Model(&cart{ID: id}).Update("v", "late").Error; !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: an older token: got %v, and the fence is %d", name, err, f.number("COALESCE(fence, 0) FROM carts WHERE id", id))
			}
		}
	})
}

// TestGormOtherPluginsAreSeen: the guard comes after what they register at the same place, later.
func TestGormOtherPluginsAreSeen(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		register := func(p interface {
			Register(name string, f func(*gorm.DB)) error
		}, do func(stmt *gorm.Statement)) {
			must.OK(t, p.Register("other", func(db *gorm.DB) { do(db.Statement) }))
		}
		register(f.Callback().Update().Before("gorm:update"), func(stmt *gorm.Statement) {
			stmt.SetColumn("V", "by the plugin")
			stmt.AddClause(clause.Where{Exprs: []clause.Expression{clause.Or(clause.Expr{SQL: "1 = 1"})}})
		})
		register(f.Callback().Delete().Before("gorm:delete"), func(stmt *gorm.Statement) {
			stmt.AddClause(clause.Where{Exprs: []clause.Expression{clause.Or(clause.Expr{SQL: "1 = 1"})}})
		})
		register(f.Callback().Create().Before("gorm:create"), func(stmt *gorm.Statement) {
			stmt.AddClause(clause.OnConflict{UpdateAll: true})
		})
		id, err := e.insert(t.Context())
		must.OK(t, err)
		row, neighbor := &gormRow{ID: id, Lock: formsLock}, e.rows.Add(1)
		must.OK(t, e.insertInto(t.Context(), "guarded", neighbor))
		must.OK(t, f.with(512).Model(row).Update("V", "x").Error)
		f.is("what the plugin sets", row.ID, "by the plugin", 512)
		for what, err := range map[string]error{"Update": f.with(511).Model(row).Update("V", "x").Error, "Delete": f.with(511).Delete(row).Error} {
			if !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s with an older token: got %v", what, err)
			}
		}
		if err := f.with(768).Create(row).Error; !errors.Is(err, gormfence.ErrUnguarded) {
			t.Errorf("an upsert by the plugin: got %v", err)
		}
		f.is("an older token", row.ID, "by the plugin", 512)
		if n := f.number("COUNT(*) FROM guarded WHERE v = '' AND id", neighbor); n != 1 {
			t.Error("its neighbor was changed")
		}
	})
}

// loose is a field that adds a condition with OR to every update.
type loose string

func (loose) UpdateClauses(*schema.Field) []clause.Interface {
	return []clause.Interface{clause.Where{Exprs: []clause.Expression{clause.Or(clause.Expr{SQL: "1 = 1"})}}}
}

type looseRow struct {
	ID    int64
	V     loose
	Fence gormfence.Token
}

func (looseRow) TableName() string { return "guarded" }
func (looseRow) FenceLock() string { return formsLock }

// TestGormConditionsOfOtherFieldsAreAddedOnce: a second time they would come behind the fence.
func TestGormConditionsOfOtherFieldsAreAddedOnce(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		db, err := e.gormOn(e.db, gorm.Config{}, &looseRow{})
		must.OK(t, err)
		f := &forms{db, t, e}
		id, err := e.insert(t.Context())
		must.OK(t, err)
		must.OK(t, f.with(768).Model(&looseRow{ID: id}).Update("v", "x").Error)
		if err := f.with(512).Model(&looseRow{ID: id}).Update("v", "late").Error; !errors.Is(err, fence.ErrStale) {
			t.Errorf("an older token: got %v", err)
		}
		f.is("an older token", id, "x", 768)
	})
}

// TestGormTextAfterEnter: what the errors and the documentation say to do with SQL as text.
func TestGormTextAfterEnter(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		f := newForms(t, e)
		a, b := f.row(), f.row()
		write := func(token int64, v string) error {
			return f.with(token).Transaction(func(tx *gorm.DB) error {
				for _, row := range []*gormRow{a, b} {
					if err := gormfence.Enter(tx, row); err != nil {
						return fmt.Errorf("row %d: %w", row.ID, err)
					}
				}
				return tx.Exec("UPDATE guarded SET v = ? WHERE id IN ?", v, []int64{a.ID, b.ID}).Error
			})
		}
		must.OK(t, write(768, "x"))
		if err := write(512, "late"); !errors.Is(err, fence.ErrStale) {
			t.Errorf("an older token: got %v", err)
		}
		f.is("the first", a.ID, "x", 768)
		f.is("the second", b.ID, "x", 768)
	})
}

// backquotedCart and quotedCart have quotes in the names of their table.
type backquotedCart cart

func (backquotedCart) TableName() string { return "`carts`" }
func (backquotedCart) FenceLock() string { return formsLock }

type quotedCart cart

func (quotedCart) TableName() string { return `"carts"` }
func (quotedCart) FenceLock() string { return formsLock }

// TestGormQuotedTableDoesNotHideARejection: the guard finds the row again in such a table.
func TestGormQuotedTableDoesNotHideARejection(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		id := carts(t, e).cart(512).ID
		var model gormfence.Fenced = &backquotedCart{ID: id}
		if e.name == "postgres" {
			model = &quotedCart{ID: id}
		}
		db, err := e.gormOn(e.db, gorm.Config{}, model)
		must.OK(t, err)
		f := &forms{db, t, e}
		must.OK(t, gormfence.Enter(f.with(768), model))
		must.OK(t, gormfence.Enter(f.with(768), model)) // changes nothing, which MySQL counts as no row
		for what, err := range map[string]error{"Update": f.with(512).Model(model).Update("v", "x").Error, "Delete": f.with(512).Delete(model).Error} {
			if !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s with an older token: got %v", what, err)
			}
		}
		must.OK(t, f.with(768).Delete(model).Error)
	})
}
