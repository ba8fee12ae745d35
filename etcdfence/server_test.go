// SPDX-License-Identifier: Apache-2.0

package etcdfence_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencelock/fencelock/fencetest"
)

// patience is how long the server may take for anything: far more than it needs.
const patience = 40 * time.Second

// server is a running etcd of one member.
type server struct {
	url  string
	args []string
	cmd  *exec.Cmd
	t    *testing.T
}

func startServer(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("etcd is not installed; on Debian: apt-get install etcd-server")
	}
	client, peer := "http://"+freeAddr(t), "http://"+freeAddr(t)
	s := &server{t: t, url: client, args: []string{"--name", "n", "--data-dir", t.TempDir(), "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "n=" + peer, "--initial-cluster-state", "new"}}
	t.Cleanup(s.kill)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts the server and waits for its first answer.
func (s *server) start(ctx context.Context) error {
	s.cmd = exec.Command("etcd", s.args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := s.connect(&atomic.Bool{})
	defer c.Close()
	for {
		one, stop := context.WithTimeout(ctx, time.Second)
		_, err := c.Get(one, "ready")
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("etcd was not ready within %v: %w", patience, err)
		}
	}
}

func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// restart kills the server and starts it again with its data.
func (s *server) restart(ctx context.Context) error {
	s.kill()
	return s.start(ctx)
}

// connect returns a client. If lose is set when an answer comes, the answer is
// lost. That is done above the connection: gRPC sends and receives on it by
// itself, so nobody can tell there which bytes are an answer.
func (s *server) connect(lose *atomic.Bool) *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.url}, DialTimeout: patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, reply, cc, opts...)
				if err == nil && lose.Load() {
					fencetest.Lost(ctx)
					return status.Error(codes.Unavailable, "error reading from server: EOF")
				}
				return err
			})}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
