// SPDX-License-Identifier: Apache-2.0

package etcdfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/etcdfence"
	"github.com/fencelock/fencelock/store/memstore"
)

// The guard rejects operations under a token that is older than the newest one that its key
// has seen. The locks can be in any store; here they are in memory.
func Example() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv("ETCD_ENDPOINT")}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	const order = "orders/42"
	guard, err := etcdfence.New(client, "fences/"+order, order)
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, order, func(ctx context.Context, _ *fencelock.Lease) error {
		_, err := guard.Do(ctx, clientv3.OpPut(order, "paid"))
		return err
	})
	fmt.Println("written:", err == nil)

	late := fence.With(ctx, fence.Mark{Lock: order, Token: 1})
	_, err = guard.Do(late, clientv3.OpPut(order, "open"))
	fmt.Println("stale:", errors.Is(err, fence.ErrStale))
}
