// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/gormfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

type Account struct {
	ID    int64
	Cents int
	Fence gormfence.Token // the newest token that the row has seen
}

func (a Account) FenceLock() string { return fmt.Sprintf("accounts/%d", a.ID) }

// add runs inside the lock. The program has called db.Use(gormfence.New(&Account{})).
func add(db *gorm.DB, account *Account, cents int) error {
	if err := gormfence.Enter(db, account); err != nil { // raises the fence, then reads
		return err
	}
	return db.Model(account).Update("cents", account.Cents+cents).Error
}

// TestTheGormExampleOfTheDocumentation runs it as it is printed there, with a table that GORM makes.
func TestTheGormExampleOfTheDocumentation(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		db, err := e.gormOn(e.db, gorm.Config{}, &Account{})
		must.OK(t, err)
		must.OK(t, db.AutoMigrate(&Account{}))
		t.Cleanup(func() { _, _ = e.db.Exec("DROP TABLE accounts") })
		must.OK(t, db.Create(&Account{ID: 42, Cents: 100}).Error)
		locks, err := fencelock.New(memstore.New(nil), nil)
		must.OK(t, err)
		defer locks.Close(t.Context())
		account := Account{ID: 42}
		for range 2 {
			must.OK(t, locks.Do(t.Context(), account.FenceLock(), func(ctx context.Context, _ *fencelock.Lease) error {
				return add(db.WithContext(ctx), &account, 10)
			}))
		}
		late := db.WithContext(fence.With(t.Context(), fence.Mark{Lock: account.FenceLock(), Token: 1}))
		for what, err := range map[string]error{"entering": add(late, &account, 10), "writing": late.Model(&account).Update("cents", 0).Error} {
			if !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s too late: got %v", what, err)
			}
		}
		if err := add(db, &account, 10); !errors.Is(err, fence.ErrNoToken) {
			t.Errorf("outside of the lock: got %v", err)
		}
		var got Account
		if err := db.First(&got, 42).Error; err != nil || got.Cents != 120 || got.Fence == 0 {
			t.Errorf("the account is %+v, %v", got, err)
		}
	})
}
