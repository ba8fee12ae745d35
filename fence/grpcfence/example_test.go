// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/grpcfence"
	"github.com/fencelock/fencelock/store/memstore"
)

// newServer passes tokens on to its handlers, and rejections of their guards back.
func newServer() *grpc.Server {
	return grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpcfence.UnaryServerInterceptor(nil)),
		grpc.ChainStreamInterceptor(grpcfence.StreamServerInterceptor(nil)))
}

// Put is a handler. The guard of the storage finds the token in ctx.
func (s *shelfServer) Put(ctx context.Context, text *wrapperspb.StringValue) (*emptypb.Empty, error) {
	if err := s.shelf.Put(ctx, text.GetValue()); err != nil {
		return nil, err // as it is: the client knows it again
	}
	return &emptypb.Empty{}, nil
}

// connect returns a connection that sends the token of the lease in the context of a call.
func connect(target string, creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, grpc.WithTransportCredentials(creds),
		grpc.WithChainUnaryInterceptor(grpcfence.UnaryClientInterceptor(nil)),
		grpc.WithChainStreamInterceptor(grpcfence.StreamClientInterceptor(nil)))
}

// Shelf is the storage of the service, with a guard: here a mutex, in earnest a
// database behind sqlfence, for example.
type Shelf struct {
	mu   sync.Mutex
	text string
	kept fence.Mark
}

// Put finds the token in the context of the call.
func (s *Shelf) Put(ctx context.Context, text string) error {
	given, err := fence.FromContext(ctx, "shelf")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := fence.Check(s.kept, given); err != nil {
		return err
	}
	s.kept, s.text = given, text
	return nil
}

type shelfServer struct{ shelf *Shelf }

// shelfDesc is what protoc generates for: rpc Put(google.protobuf.StringValue) returns (google.protobuf.Empty).
var shelfDesc = grpc.ServiceDesc{ServiceName: "Shelf", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Put",
	Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		req := &wrapperspb.StringValue{}
		if err := decode(req); err != nil {
			return nil, err
		}
		return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/Shelf/Put"}, func(ctx context.Context, req any) (any, error) {
			return srv.(*shelfServer).Put(ctx, req.(*wrapperspb.StringValue))
		})
	}}}}

func Example() {
	ctx := context.Background()
	var shelf Shelf
	server := newServer()
	server.RegisterService(&shelfDesc, &shelfServer{&shelf})
	defer server.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = server.Serve(l) }()
	conn, err := connect("passthrough:///"+l.Addr().String(), insecure.NewCredentials()) // on loopback
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	put := func(ctx context.Context, text string) error {
		return conn.Invoke(ctx, "/Shelf/Put", wrapperspb.String(text), &emptypb.Empty{})
	}

	locks, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)
	err = locks.Do(ctx, "shelf", func(ctx context.Context, _ *fencelock.Lease) error {
		return put(ctx, "a book")
	})
	fmt.Println("on the shelf:", shelf.text, err)

	err = put(fence.With(ctx, fence.Mark{Lock: "shelf", Token: 1}), "dust")
	fmt.Println(status.Code(err), err)
	fmt.Println(errors.Is(put(ctx, "dust"), fence.ErrNoToken))
	// Output:
	// on the shelf: a book <nil>
	// Aborted fence: stale token 1 of lock "shelf": a newer token 256 was seen, from ann
	// true
}
