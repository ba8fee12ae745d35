// SPDX-License-Identifier: Apache-2.0

package etcdfence_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/etcdfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memstore"
)

// pay adds to the total of an order. Reading through the guard raises the fence.
func pay(ctx context.Context, locks *fencelock.Client, client *clientv3.Client, order string, cents int) error {
	guard, err := etcdfence.New(client, "fences/"+order, order) // the key of the fence, and the lock
	if err != nil {
		return err
	}
	return locks.Do(ctx, order, func(ctx context.Context, _ *fencelock.Lease) error {
		res, err := guard.Do(ctx, clientv3.OpGet(order))
		if err != nil {
			return err
		}
		total := 0
		for _, kv := range res[0].GetResponseRange().Kvs { // none at first
			total, _ = strconv.Atoi(string(kv.Value))
		}
		_, err = guard.Do(ctx, clientv3.OpPut(order, strconv.Itoa(total+cents)))
		return err
	})
}

// TestTheExampleOfTheDocumentation runs it as it is printed there.
func TestTheExampleOfTheDocumentation(t *testing.T) {
	client := startServer(t).connect(&atomic.Bool{})
	defer client.Close()
	locks, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	defer locks.Close(t.Context())
	const order = "orders/42"
	for range 2 {
		must.OK(t, pay(t.Context(), locks, client, order, 10))
	}
	if total, err := read(t.Context(), client, order); total != "20" || err != nil {
		t.Errorf("the total is %s, %v", total, err)
	}
	guard, err := etcdfence.New(client, "fences/"+order, order)
	must.OK(t, err)
	late := fence.With(t.Context(), fence.Mark{Lock: order, Token: 1})
	if _, err := guard.Do(late, clientv3.OpPut(order, "0")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("too late: got %v", err)
	}
}

func TestExamples(t *testing.T) {
	servers.Example(t, Example, "ETCD_ENDPOINT", startServer(t).Addrs()[0], "written: true\nstale: true\n")
}
