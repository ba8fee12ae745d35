// SPDX-License-Identifier: Apache-2.0

// Package beats counts, at the server, what holding locks costs.
package beats

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/etcdstore"
	"github.com/fencelock/fencelock/etcdstore/internal/etcdtest"
)

// PerPeriod lets one process hold so many leases for some renewal periods, and
// returns how many lease renewals the server counted for each. Nobody else may use
// the cluster meanwhile; its first member must lead.
func PerPeriod(ctx context.Context, cluster *etcdtest.Cluster, leases, periods int) (float64, error) {
	client, err := cluster.Client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	store, err := etcdstore.New(client, &etcdstore.Options{Namespace: "beats"})
	if err != nil {
		return 0, err
	}
	heard := make(chan struct{}, 1024)
	locks, err := fencelock.New(&listener{store, heard}, &fencelock.Options{TTL: 6 * time.Second})
	if err != nil {
		return 0, err
	}
	defer locks.Close(context.WithoutCancel(ctx))
	for i := range leases {
		if _, err := locks.Mutex(fmt.Sprint("lock/", i)).Lock(ctx); err != nil {
			return 0, err
		}
	}
	var from, to float64
	for i := range periods + 1 { // from one renewal to another
		select {
		case <-heard:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if i == 0 {
			for len(heard) > 0 {
				<-heard // those from while the locks were taken
			}
			if from, err = cluster.Members[0].Metric(ctx, etcdtest.Renewals); err != nil {
				return 0, err
			}
		}
	}
	to, err = cluster.Members[0].Metric(ctx, etcdtest.Renewals)
	return (to - from) / float64(periods), err
}

// listener is a store that tells when its session was kept alive.
type listener struct {
	driver.Store
	heard chan struct{}
}

// Open implements driver.Store.
func (l *listener) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	s, life, err := l.Store.Open(ctx, req)
	if err != nil {
		return nil, life, err
	}
	return &heartbeat{s, l.heard}, life, nil
}

type heartbeat struct {
	driver.Session
	heard chan struct{}
}

// KeepAlive implements driver.Session.
func (h *heartbeat) KeepAlive(ctx context.Context) (driver.Life, error) {
	life, err := h.Session.KeepAlive(ctx)
	h.heard <- struct{}{}
	return life, err
}
