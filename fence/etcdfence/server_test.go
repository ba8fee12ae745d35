// SPDX-License-Identifier: Apache-2.0

package etcdfence_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// patience is how long the server may take for anything: far more than it needs.
const patience = 40 * time.Second

// server is a running etcd of one member.
type server struct {
	*servers.EtcdCluster
	t *testing.T
}

func startServer(t *testing.T) *server {
	t.Helper()
	return &server{t: t, EtcdCluster: servers.Test(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1) })}
}

// restart kills the server and starts it again with its data.
func (s *server) restart(context.Context) error {
	s.Kill()
	return s.Start()
}

// connect returns a client. If lose is set when an answer arrives, the answer is
// dropped. An interceptor does that and not the connection: gRPC also sends and
// receives frames of its protocol, so bytes on the connection need not be an answer.
func (s *server) connect(lose *atomic.Bool) *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Addrs(), DialTimeout: patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, reply, cc, opts...)
				if err == nil && lose.Load() {
					fencetest.Lost(ctx)
					return status.Error(codes.Unavailable, "error reading from server: EOF")
				}
				return err
			})}})
	must.OK(s.t, err)
	return c
}
