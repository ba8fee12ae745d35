// SPDX-License-Identifier: Apache-2.0

package otelfencelock_test

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// The providers are those that the program has set with otel.SetMeterProvider and otel.SetTracerProvider. Metrics have
// the class of a lock, not its name: all orders are one class.
func ExampleNew() {
	ctx := context.Background()
	tel := &otelfencelock.Options{Class: otelfencelock.Template}
	locks, err := otelfencelock.New(memstore.New(nil), nil, tel)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)

	err = locks.Do(ctx, "orders/42", func(ctx context.Context, l *fencelock.Lease) error {
		fmt.Println("holding", l.Name(), "measured as", otelfencelock.Template(l.Name()))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: holding orders/42 measured as orders/{id}
}
