// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/grpcfence"
	"github.com/fencelock/fencelock/internal/must"
)

// storage is what a service keeps a value in.
type storage interface {
	Enter(ctx context.Context) (string, error)
	Set(ctx context.Context, value string) error
	Get(ctx context.Context) (string, error)
}

// stepKey identifies to the service the context under which a case made a call, so that
// the call can be stopped inside the service too.
const stepKey = "x-step"

// service is a real gRPC server with the values of all cases, by name of lock. A request
// is a list: the lock, and the value to write if it is a write.
type service struct {
	addr     string
	options  func() []grpc.ServerOption
	values   sync.Map     // by lock: storage
	contexts sync.Map     // by number: context of the call at the client
	calls    atomic.Int64 // to number them
	handled  atomic.Int64 // how often a handler ran
	conns    sync.Map     // by address of the client: the connection
	lose     sync.Map     // by number: the reply of this call is to be lost, once; a channel that is closed then

	server *grpc.Server
	over   chan struct{} // closed when it serves no more
}

// withFence are the options of a server with the interceptors, below one that loses replies.
func (s *service) withFence() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.losesUnary, grpcfence.UnaryServerInterceptor(nil)),
		grpc.ChainStreamInterceptor(s.losesStream, grpcfence.StreamServerInterceptor(nil))}
}

// newService starts a service, with other options than withFence if they are given.
func newService(t *testing.T, options func(*service) []grpc.ServerOption) *service {
	t.Helper()
	s := &service{addr: "127.0.0.1:0"}
	s.options = s.withFence
	if options != nil {
		s.options = func() []grpc.ServerOption { return options(s) }
	}
	must.OK(t, s.start())
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *service) start() error {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	s.server = grpc.NewServer(s.options()...)
	s.server.RegisterService(&desc, s)
	s.over = make(chan struct{})
	go func(server *grpc.Server, over chan struct{}) {
		defer close(over)
		_ = server.Serve(listener{l, s})
	}(s.server, s.over)
	return nil
}

// stop ends the server with all its connections, and gives its port back.
func (s *service) stop() {
	s.server.Stop()
	<-s.over // a server that is stopped before it serves closes the listener there
}

// restart ends the server, and starts another.
func (s *service) restart(context.Context) error {
	s.stop()
	return s.start()
}

// listener remembers connections, so that they can be cut.
type listener struct {
	net.Listener
	s *service
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.s.conns.Store(c.RemoteAddr().String(), c)
	}
	return c, err
}

// number is that of a call.
func number(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, stepKey)
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// cut breaks the connection of a call whose handler is done, before it is answered.
func (s *service) cut(ctx context.Context) {
	id := number(ctx)
	lost, armed := s.lose.LoadAndDelete(id)
	if !armed {
		return
	}
	if at, ok := s.contexts.Load(id); ok {
		fencetest.Lost(at.(context.Context))
	}
	close(lost.(chan struct{}))
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := s.conns.Load(p.Addr.String()); ok {
			_ = c.(net.Conn).Close()
		}
	}
	<-ctx.Done() // the server has noticed
}

func (s *service) losesUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	reply, err := handle(ctx, req)
	s.cut(ctx)
	return reply, err
}

func (s *service) losesStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, stream) // Talk cuts by itself: its answer is a message
}

// serve is what the handlers do.
func (s *service) serve(ctx context.Context, req *structpb.ListValue) (string, error) {
	s.handled.Add(1)
	if at, ok := s.contexts.Load(number(ctx)); ok {
		fencetest.Step(at.(context.Context))
	}
	v, ok := s.values.Load(req.Values[0].GetStringValue())
	if !ok {
		return "", status.Error(codes.NotFound, "no such value")
	}
	if len(req.Values) == 2 {
		return "", v.(storage).Set(ctx, req.Values[1].GetStringValue())
	}
	return v.(storage).Enter(ctx)
}

// desc is the service without generated code: Call is unary, Talk answers each message.
var desc = grpc.ServiceDesc{ServiceName: "fencetest.Values", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Call",
		Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := &structpb.ListValue{}
			if err := decode(req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, req any) (any, error) {
				value, err := srv.(*service).serve(ctx, req.(*structpb.ListValue))
				return structpb.NewStringValue(value), err
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/fencetest.Values/Call"}, handle)
		}}},
	Streams: []grpc.StreamDesc{{StreamName: "Talk", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error {
			for {
				req := &structpb.ListValue{}
				if err := stream.RecvMsg(req); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				value, err := srv.(*service).serve(stream.Context(), req)
				if err != nil {
					return err
				}
				srv.(*service).cut(stream.Context())
				if err := stream.SendMsg(structpb.NewStringValue(value)); err != nil {
					return err
				}
			}
		}}},
}

// retrying is a service config that sends calls again.
const retrying = `{"methodConfig": [{"name": [{}], "waitForReady": true, "retryPolicy": {"maxAttempts": 4,
	"initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// connect returns a client. It connects again soon after a restart.
func (s *service) connect(t *testing.T, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	soon := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 100 * time.Millisecond}
	conn, err := grpc.NewClient("passthrough:///"+s.addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(retrying),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: 20 * time.Second})}, more...)...)
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// fenced are the interceptors of a client.
var fenced = []grpc.DialOption{grpc.WithChainUnaryInterceptor(grpcfence.UnaryClientInterceptor(nil)),
	grpc.WithChainStreamInterceptor(grpcfence.StreamClientInterceptor(nil))}

// caller makes a call with a request and returns the answer.
type caller func(ctx context.Context, conn *grpc.ClientConn, req *structpb.ListValue) (string, error)

func unary(ctx context.Context, conn *grpc.ClientConn, req *structpb.ListValue) (string, error) {
	var reply structpb.Value
	err := conn.Invoke(ctx, "/fencetest.Values/Call", req, &reply)
	return reply.GetStringValue(), err
}

func stream(ctx context.Context, conn *grpc.ClientConn, req *structpb.ListValue) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := conn.NewStream(ctx, &desc.Streams[0], "/fencetest.Values/Talk")
	if err != nil {
		return "", err
	}
	if err := s.SendMsg(req); err != nil && !errors.Is(err, io.EOF) { // RecvMsg has the reason
		return "", err
	}
	var reply structpb.Value
	err = s.RecvMsg(&reply)
	return reply.GetStringValue(), err
}

// request makes a call as a case wants it.
func (s *service) request(ctx context.Context, conn *grpc.ClientConn, by caller, lose bool, texts ...string) (string, error) {
	id := strconv.FormatInt(s.calls.Add(1), 10)
	s.contexts.Store(id, ctx)
	defer s.contexts.Delete(id)
	if lose {
		lost := make(chan struct{})
		s.lose.Store(id, lost)
		defer func() {
			if _, still := s.lose.LoadAndDelete(id); !still {
				<-lost
			}
		}()
	}
	fencetest.Step(ctx)
	return by(metadata.AppendToOutgoingContext(ctx, stepKey, id), conn, list(texts...))
}

// list is a request.
func list(texts ...string) *structpb.ListValue {
	req := &structpb.ListValue{}
	for _, text := range texts {
		req.Values = append(req.Values, structpb.NewStringValue(text))
	}
	return req
}
