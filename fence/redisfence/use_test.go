// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/redisfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memstore"
)

var (
	readTotal  = redisfence.NewScript(`return redis.call('HGET', KEYS[1], 'total')`)
	writeTotal = redisfence.NewScript(`return redis.call('HSET', KEYS[1], 'total', ARGV[1])`)
)

// pay adds to the total of an order. Reading through the guard raises the fence.
func pay(ctx context.Context, locks *fencelock.Client, client redis.UniversalClient, order string, cents int) error {
	guard, err := redisfence.New(client, order, order) // the key, and the lock
	if err != nil {
		return err
	}
	return locks.Do(ctx, order, func(ctx context.Context, _ *fencelock.Lease) error {
		old, err := guard.Run(ctx, readTotal, []string{order})
		if err != nil {
			return err
		}
		text, _ := old.(string) // nil before the first write
		total, _ := strconv.Atoi(text)
		_, err = guard.Run(ctx, writeTotal, []string{order}, total+cents)
		return err
	})
}

// TestTheExampleOfTheDocumentation runs it as it is printed there.
func TestTheExampleOfTheDocumentation(t *testing.T) {
	client := connect(t, start(t, servers.Redis).Addr)
	locks, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	defer locks.Close(t.Context())
	const order = "orders/42"
	for range 2 {
		must.OK(t, pay(t.Context(), locks, client, order, 10))
	}
	if total, err := client.HGet(t.Context(), order, "total").Result(); total != "20" || err != nil {
		t.Errorf("the total is %s, %v", total, err)
	}
	guard, err := redisfence.New(client, order, order)
	must.OK(t, err)
	late := fence.With(t.Context(), fence.Mark{Lock: order, Token: 1})
	if _, err := guard.Run(late, writeTotal, []string{order}, 0); !errors.Is(err, fence.ErrStale) {
		t.Errorf("too late: got %v", err)
	}
}

func TestExamples(t *testing.T) {
	servers.Example(t, Example, "REDIS_URL", "redis://"+start(t, servers.Redis).Addr, "written: true\nstale: true\n")
}
