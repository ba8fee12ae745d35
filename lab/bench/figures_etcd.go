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

// etcd is what is promised of etcdstore, beside the recipe of etcd's client library, on one server.
func etcd() []on {
	return []on{{target.StartEtcd, []question{etcdUncontended, etcdContended, etcdWatches, etcdHeartbeats, etcdLogins}}}
}

var etcdUncontended = question{
	part: "uncontended", metrics: nativeMetrics,
	measure: lasting(5, 700*time.Millisecond, uncontended([]int{1}, candidate.EtcdRecipe, candidate.FencelockEtcd)),
	figures: []query{{"etcd-uncontended-vs-native", figure.AtLeast(1), ratio("", candidate.FencelockEtcd, candidate.EtcdRecipe, suite.Rate)}},
}

// etcdCrowds have one goroutine in each process: the recipe lets all goroutines of a
// session hold the lock together.
var etcdCrowds = []suite.Crowd{{Candidate: candidate.FencelockEtcd, Processes: 2, Goroutines: 1}, {Candidate: candidate.FencelockEtcd, Processes: 8, Goroutines: 1}}

// etcdContended is the worse of two sizes.
var etcdContended = question{
	part: "processes", metrics: nativeMetrics, measure: besideNative(candidate.EtcdRecipe, etcdCrowds...),
	figures: []query{{"etcd-contended-vs-native", figure.AtLeast(5), func(cells suite.Cells) float64 {
		vs := func(c suite.Crowd) float64 {
			return cells.Ratio(c.Case(), c.Candidate.Name, candidate.EtcdRecipe.Name, suite.Rate)
		}
		return min(vs(etcdCrowds[0]), vs(etcdCrowds[1]))
	}}},
}

// etcdHeartbeats counts the lease renewals at the server.
var etcdHeartbeats = question{part: "holding", figures: []query{{name: "etcd-heartbeats-1000-leases", goal: figure.Exactly(1)}}, count: func(ctx context.Context, e *suite.Env) ([]float64, error) {
	server, err := e.Start(ctx) // one without other clients
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	client, err := etcdClient(server.Addr())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	store, err := etcdstore.New(client, nil)
	if err != nil {
		return nil, err
	}
	per, err := perKeepAlive(ctx, store, 6*time.Second, func(ctx context.Context) (float64, error) {
		return server.(*target.Etcd).Metric(ctx, servers.EtcdRenewals)
	})
	return []float64{per}, err
}}

func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
}

// etcdWatches measures how late a watch reports a deletion that comes right after
// it was opened: opened at the revision of the last read, as concurrency.Mutex
// does, and at the one after it. It is no promise of ours, so the figure has no value.
var etcdWatches = question{part: "processes", figures: []query{{name: "etcd-watch"}}, count: func(ctx context.Context, e *suite.Env) ([]float64, error) {
	client, err := etcdClient(e.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	const times = 21
	var late [2][]float64 // ms
	for i := range 2 * times {
		d, err := deletion(ctx, client, int64(i%2))
		if err != nil {
			return nil, err
		}
		late[i%2] = append(late[i%2], float64(d)/float64(time.Millisecond))
	}
	for i, revision := range []string{"revision read last", "next revision"} {
		s := stat.Of(late[i])
		fmt.Printf("etcd: a watch from the %s reports a deletion after %.1f ms (median; at most %.1f)\n", revision, s.Median, s.Max)
	}
	return nil, nil
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
