// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watchSteps measures how late a watch tells of a deletion that comes right after
// it was opened: opened at the revision of the last read, as concurrency.Mutex
// does, and at the one after it.
func watchSteps(ctx context.Context, cluster *etcdtest.Cluster) (string, error) {
	client, err := cluster.Client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	const times = 21
	var late [2][]time.Duration
	for i := range 2 * times {
		d, err := deletion(ctx, client, int64(i%2))
		if err != nil {
			return "", err
		}
		late[i%2] = append(late[i%2], d)
	}
	text := "a deletion is told after"
	for i, what := range []string{"by a watch from the revision read last", "by a watch from the next one"} {
		s := slices.Sorted(slices.Values(late[i]))
		text += fmt.Sprintf(" %.1f ms (median; most %.1f) %s;", ms(s[times/2]), ms(s[times-1]), what)
	}
	return text[:len(text)-1], nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

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
