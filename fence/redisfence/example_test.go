// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/redisfence"
	"github.com/fencelock/fencelock/store/memstore"
)

// The guard of a key rejects a write under a token that is older than the newest one that
// the key has seen. The locks can be in any store; here they are in memory.
func Example() {
	ctx := context.Background()
	opts, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(opts)
	defer client.Close()
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	const order = "orders/42"
	guard, err := redisfence.New(client, order, order)
	if err != nil {
		log.Fatal(err)
	}
	set := redisfence.NewScript(`return redis.call('HSET', KEYS[1], 'state', ARGV[1])`)
	err = locks.Do(ctx, order, func(ctx context.Context, _ *fencelock.Lease) error {
		_, err := guard.Run(ctx, set, []string{order}, "paid")
		return err
	})
	fmt.Println("written:", err == nil)

	late := fence.With(ctx, fence.Mark{Lock: order, Token: 1})
	_, err = guard.Run(late, set, []string{order}, "open")
	fmt.Println("stale:", errors.Is(err, fence.ErrStale))
}
