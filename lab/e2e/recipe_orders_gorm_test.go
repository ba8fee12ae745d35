// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/internal/must"
)

// Order keeps the newest token, and names its lock. The program calls
// db.Use(gormfence.New(&Order{})) once.
type Order struct {
	ID    int
	State string
	Fence gormfence.Token
}

// FenceLock implements gormfence.Fenced.
func (o Order) FenceLock() string { return fmt.Sprintf("orders/%d", o.ID) }

// Parcel belongs to an order.
type Parcel struct{ OrderID int }

func processWithGorm(ctx context.Context, locks *fencelock.Client, db *gorm.DB, id int, pack func(ctx context.Context, key string) error) error {
	order := Order{ID: id}
	return locks.Do(ctx, order.FenceLock(), func(ctx context.Context, _ *fencelock.Lease) error {
		db := db.WithContext(ctx) // it carries the token
		if err := gormfence.Enter(db, &order); err != nil || order.State != "new" {
			return err
		}
		if err := pack(ctx, order.FenceLock()); err != nil {
			return err
		}
		return db.Transaction(func(tx *gorm.DB) error {
			// errors.Is(err, fence.ErrStale): we are late, and nothing is changed.
			if err := tx.Model(&order).Update("state", "packed").Error; err != nil {
				return err
			}
			return tx.Create(&Parcel{OrderID: id}).Error
		})
	})
}

func TestRecipeOrdersGorm(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		db, err := e.gormOn(e.db, gorm.Config{}, &Order{})
		must.OK(t, err)
		testOrders(t, e, func(locks *fencelock.Client, pack func(context.Context, string) error) func(context.Context, int) error {
			return func(ctx context.Context, id int) error { return processWithGorm(ctx, locks, db, id, pack) }
		})
	})
}
