// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fencelock/fencelock"
	_ "github.com/fencelock/fencelock/store/memstore" // for mem://
)

// The store is chosen by the configuration. A program imports every store that it can
// use: this one knows mem:// only.
func ExampleOpenStore() {
	ctx := context.Background()
	store, err := fencelock.OpenStore(ctx, cmp.Or(os.Getenv("LOCKS"), "mem://?grace=true"))
	if err != nil {
		log.Fatal(err) // names the scheme or the parameter that is wrong, and no password
	}
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	err = locks.Do(ctx, "reports/nightly", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = fencelock.OpenStore(ctx, "redis://:secret@localhost")
	fmt.Println(err)
	// Output:
	// holding reports/nightly
	// fencelock: the store of redis:// is not linked into this program; add import _ "github.com/fencelock/fencelock/store/redisstore"
}
