// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// TestRenewalOfADeposedLeaderDoesNotCount: a leader that was deposed and does not know it
// answers keep-alives with its old term. The renewal is repeated, and fails if the answers do
// not become those of the leader that a quorum confirms.
func TestRenewalOfADeposedLeaderDoesNotCount(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var stale, answers atomic.Int64
	asDeposed := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		return &deposed{s, &stale, &answers}, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: etcdtest.Start(t, 1).Addrs(), DialTimeout: 10 * time.Second,
		Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(asDeposed)}})
	must.OK(t, err)
	t.Cleanup(func() { _ = client.Close() })
	s := session(t, ctx, client)
	stale.Store(1)
	answers.Store(0)
	if _, err := s.KeepAlive(ctx); err != nil || answers.Load() != 2 {
		t.Errorf("after one answer of a deposed leader: %v, and %d answers were taken, want the second", err, answers.Load())
	}
	stale.Store(1 << 40)
	if _, err := s.KeepAlive(ctx); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("with answers of a deposed leader only: %v, want ErrUnavailable", err)
	}
}

// deposed is a stream whose next answers to keep-alives are of the term before.
type deposed struct {
	grpc.ClientStream
	stale, answers *atomic.Int64
}

// RecvMsg implements grpc.ClientStream.
func (d *deposed) RecvMsg(m any) error {
	err := d.ClientStream.RecvMsg(m)
	if resp, ok := m.(*pb.LeaseKeepAliveResponse); ok && err == nil {
		d.answers.Add(1)
		if d.stale.Add(-1) >= 0 {
			resp.Header.RaftTerm--
		}
	}
	return err
}
