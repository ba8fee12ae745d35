// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// etcdWatches measures how late a watch reports a deletion that comes right after
// it was opened: opened at the revision of the last read, as concurrency.Mutex
// does, and at the one after it. It is no promise of ours, so there is no figure.
var etcdWatches = question{part: "processes", gives: []string{"etcd-watch"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	client, err := etcdClient(e.Server.Addr())
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	const times = 21
	var late [2][]float64 // ms
	for i := range 2 * times {
		d, err := deletion(ctx, client, int64(i%2))
		if err != nil {
			return nil, nil, err
		}
		late[i%2] = append(late[i%2], float64(d)/float64(time.Millisecond))
	}
	for i, revision := range []string{"revision read last", "next revision"} {
		s := stat.Of(late[i])
		fmt.Printf("etcd: a watch from the %s reports a deletion after %.1f ms (median; at most %.1f)\n", revision, s.Median, s.Max)
	}
	return nil, nil, nil
}}

// deletion measures one.
func deletion(ctx context.Context, client *clientv3.Client, after int64) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const key = "watched"
	put, err := client.Put(ctx, key, "")
	if err != nil {
		return 0, err
	}
	events := client.Watch(ctx, key, clientv3.WithRev(put.Header.Revision+after), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	if created, ok := <-events; !ok || created.Err() != nil {
		return 0, errors.Join(errors.New("the watch did not begin"), created.Err())
	}
	if _, err := client.Delete(ctx, key); err != nil {
		return 0, err
	}
	deleted := time.Now()
	for resp := range events {
		if resp.Err() != nil {
			return 0, resp.Err()
		}
		if len(resp.Events) > 0 {
			return time.Since(deleted), nil
		}
	}
	return 0, ctx.Err()
}
