// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/store/etcdstore"
)

// etcdLogins counts how often three clients log in within an hour, on a cluster with users: once
// in one process, whose clients share a connection, and once as three processes do.
var etcdLogins = question{part: "holding", figures: []query{
	{name: "etcd-authenticate-per-hour", goal: figure.AtMost(3)}, {name: "etcd-authenticate-per-hour-3-processes", goal: figure.AtMost(3)},
}, count: func(ctx context.Context, e *suite.Env) ([]float64, error) {
	together, err := loginsPerHour(ctx, e, 1)
	if err != nil {
		return nil, err
	}
	apart, err := loginsPerHour(ctx, e, 3)
	return []float64{together, apart}, err
}}

// loginsPerHour counts the logins to start three clients, of which two wait for the lock of the
// third, and those of some keep-alives. An hour has as many keep-alives as it has thirds of the
// default TTL: it is extrapolated.
func loginsPerHour(ctx context.Context, e *suite.Env, processes int) (float64, error) {
	server, err := e.Start(ctx) // one without other clients
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	if err := enableUsers(ctx, server.Addr()); err != nil {
		return 0, err
	}
	const clients, keepAlives = 3, 24
	var logins atomic.Int64
	var counters []*measure.Counter
	for range processes {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: "root", Password: "root", Logger: zap.NewNop(),
			DialTimeout: 10 * time.Second, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(countLogins(&logins))}})
		if err != nil {
			return 0, err
		}
		defer client.Close()
		store, err := etcdstore.New(client, nil)
		if err != nil {
			return 0, err
		}
		counters = append(counters, measure.NewCounter(store))
	}
	stop, err := crowdOf(ctx, counters, clients)
	if err != nil {
		return 0, err
	}
	defer stop()
	for _, c := range counters {
		if err := c.Await(ctx, clients/processes); err != nil { // every stream is open
			return 0, err
		}
	}
	counted := func() (logged int64, sent int) {
		for _, c := range counters {
			sent += c.Renewals()
		}
		return logins.Load(), sent
	}
	start, before := counted()
	for _, c := range counters { // the others go on
		if err := c.Await(ctx, keepAlives/processes); err != nil {
			return 0, err
		}
	}
	end, after := counted()
	hourly := float64(clients) * float64(time.Hour) / float64(fencelock.DefaultTTL/3)
	return float64(start) + float64(end-start)/float64(after-before)*hourly, nil
}

// enableUsers turns authentication on, with the one user root.
func enableUsers(ctx context.Context, addr string) error {
	client, err := etcdClient(addr)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err1 := client.UserAdd(ctx, "root", "root")
	_, err2 := client.UserGrantRole(ctx, "root", "root")
	_, err3 := client.AuthEnable(ctx)
	return errors.Join(err1, err2, err3)
}

func countLogins(n *atomic.Int64) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Authenticate") {
			n.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// crowdOf starts clients that want one lock, on each of the stores in turn: one holds it, the
// others wait. stop ends them.
func crowdOf(ctx context.Context, stores []*measure.Counter, clients int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all []*fencelock.Client
	stop = func() {
		cancel()
		for _, c := range all {
			_ = c.Close(context.Background())
		}
	}
	for i := range clients {
		c, err := fencelock.New(stores[i%len(stores)], &fencelock.Options{TTL: 3 * time.Second})
		if err != nil {
			stop()
			return nil, err
		}
		all = append(all, c)
		if _, err := c.Mutex(fmt.Sprint("own/", i)).Lock(ctx); err != nil { // opens its session
			stop()
			return nil, err
		}
		if i == 0 {
			if _, err := c.Mutex("one").Lock(ctx); err != nil {
				stop()
				return nil, err
			}
			continue
		}
		//fencelock:ignore leaseleak it waits until stop closes the client
		go func() { _, _ = c.Mutex("one").Lock(ctx) }()
	}
	return stop, nil
}
