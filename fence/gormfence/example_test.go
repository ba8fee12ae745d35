// SPDX-License-Identifier: Apache-2.0

package gormfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"gorm.io/gorm"
	"gorm.io/gorm/utils/tests"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/gormfence"
)

// Order is guarded: the field keeps the newest token, and the method names the lock.
type Order struct {
	ID    int64
	State string
	Fence gormfence.Token
}

// FenceLock implements gormfence.Fenced.
func (o Order) FenceLock() string { return fmt.Sprintf("orders/%d", o.ID) }

// An update of a guarded model gets the key, the condition and the token. Without the key of a
// row it is an error. Here GORM prints statements instead of running them, and the token is
// given by hand; in a program the context of the lease carries it.
func Example() {
	db, err := gorm.Open(tests.DummyDialector{}, &gorm.Config{DryRun: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Use(gormfence.New(&Order{})); err != nil {
		log.Fatal(err)
	}
	ctx := fence.With(context.Background(), fence.Mark{Lock: "orders/42", Token: 768})
	db = db.WithContext(ctx)

	fmt.Println(db.ToSQL(func(tx *gorm.DB) *gorm.DB {
		return tx.Model(&Order{ID: 42}).Update("state", "paid")
	}))
	err = db.Model(&Order{}).Where("state = ?", "open").Update("state", "paid").Error
	fmt.Println("cannot be guarded:", errors.Is(err, gormfence.ErrUnguarded))
	// Output:
	// UPDATE `orders` SET `fence`=768,`state`="paid" WHERE (`id` = 42) AND `orders`.`id` = 42 AND COALESCE(`orders`.`fence`, 0) <= 768
	// cannot be guarded: true
}
