// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/store/etcdstore"
)

// etcdFigures measures what is promised of etcdstore, beside the recipe of etcd's client
// library, on one server.
func etcdFigures(ctx context.Context, e *suite.Env, only selection) error {
	return askSelected(ctx, e, only, []on{{target.StartEtcd, etcdQuestions}})
}

var etcdQuestions = []question{etcdUncontended, etcdContended, etcdWatches, etcdHeartbeats, etcdLogins}

var etcdUncontended = question{part: "uncontended", gives: []string{"etcd-uncontended-vs-native"}, metrics: nativeMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	ours, native := candidate.FencelockEtcd, candidate.EtcdRecipe
	cells, err := e.Lasting(5, 700*time.Millisecond).Uncontended(ctx, []*candidate.Candidate{native, ours}, []int{1})
	if err != nil {
		return nil, nil, err
	}
	return []figure.Figure{
		{Name: "etcd-uncontended-vs-native", Value: cells.Ratio(suite.Goroutines(1), ours.Name, native.Name, suite.Rate), Goal: figure.AtLeast(1)},
	}, cells, nil
}}

// etcdContended is with one goroutine in each process: the recipe lets all goroutines of a
// session hold the lock together. The figure is the worse of two sizes.
var etcdContended = question{part: "processes", gives: []string{"etcd-contended-vs-native"}, metrics: nativeMetrics, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	worst := figure.Figure{Name: "etcd-contended-vs-native", Goal: figure.AtLeast(5)}
	var all suite.Cells
	for i, processes := range []int{2, 8} {
		ratio, cells, err := besideNative(ctx, e, suite.Crowd{Candidate: candidate.FencelockEtcd, Processes: processes, Goroutines: 1}, candidate.EtcdRecipe)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 || ratio < worst.Value {
			worst.Value = ratio
		}
		all = append(all, cells...)
	}
	return []figure.Figure{worst}, all, nil
}}

// etcdHeartbeats counts the lease renewals at the server.
var etcdHeartbeats = question{part: "holding", gives: []string{"etcd-heartbeats-1000-leases"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	server, err := e.Start(ctx) // one without other clients
	if err != nil {
		return nil, nil, err
	}
	defer server.Stop()
	client, err := etcdClient(server.Addr())
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	store, err := etcdstore.New(client, nil)
	if err != nil {
		return nil, nil, err
	}
	per, err := perKeepAlive(ctx, store, 6*time.Second, func(ctx context.Context) (float64, error) {
		return server.(*target.Etcd).Metric(ctx, servers.EtcdRenewals)
	})
	return []figure.Figure{{Name: "etcd-heartbeats-1000-leases", Value: per, Goal: figure.Exactly(1)}}, nil, err
}}

func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
}

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
