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
	"github.com/fencelock/fencelock/bench/internal/suite"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/store/etcdstore"
)

// etcdLogins counts how often one process logs in within an hour, on a cluster with users: to
// start three clients, of which two wait for the lock of the third, and then with every
// keep-alive, of which an hour has as many as it has thirds of the default TTL.
var etcdLogins = question{part: "holding", gives: []string{"etcd-authenticate-per-hour"}, ask: func(ctx context.Context, e *suite.Env) ([]figure.Figure, suite.Cells, error) {
	server, err := e.Start(ctx) // one without other clients
	if err != nil {
		return nil, nil, err
	}
	defer server.Stop()
	if err := enableUsers(ctx, server.Addr()); err != nil {
		return nil, nil, err
	}
	var logins atomic.Int64
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: "root", Password: "root", Logger: zap.NewNop(),
		DialTimeout: 10 * time.Second, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(countLogins(&logins))}})
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	store, err := etcdstore.New(client, nil)
	if err != nil {
		return nil, nil, err
	}
	counter := measure.NewCounter(store)
	const clients, keepAlives = 3, 24
	stop, err := crowdOf(ctx, counter, clients)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	if err := counter.Await(ctx, clients); err != nil { // every stream is open
		return nil, nil, err
	}
	start := logins.Load()
	if err := counter.Await(ctx, keepAlives); err != nil {
		return nil, nil, err
	}
	hourly := float64(clients) * float64(time.Hour) / float64(fencelock.DefaultTTL/3)
	perHour := float64(start) + float64(logins.Load()-start)/keepAlives*hourly
	return []figure.Figure{{Name: "etcd-authenticate-per-hour", Value: perHour, Goal: figure.AtMost(3)}}, nil, nil
}}

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

// crowdOf starts clients that want one lock: one holds it, the others wait. stop ends them.
func crowdOf(ctx context.Context, counter *measure.Counter, clients int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all []*fencelock.Client
	stop = func() {
		cancel()
		for _, c := range all {
			_ = c.Close(context.Background())
		}
	}
	for i := range clients {
		c, err := fencelock.New(counter, &fencelock.Options{TTL: 3 * time.Second})
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
		go func() { _, _ = c.Mutex("one").Lock(ctx) }()
	}
	return stop, nil
}
