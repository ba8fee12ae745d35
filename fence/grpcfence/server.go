// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
)

// Key is the key of the metadata that carries a mark. Metadata is sent as headers of
// HTTP/2, so name and text are those of httpfence.Header:
//
//	fencing-token: orders%2F42;768;ann@host:7
const Key = "fencing-token"

// attemptsKey is what gRPC adds to a call that it tries again.
const attemptsKey = "grpc-previous-rpc-attempts"

// UnaryServerInterceptor puts the mark of a call into the context of the handler, where
// the guard of the storage finds it, and answers the errors of a guard so that the client
// knows them again. It does not guard: the handler must pass the context on to a guard,
// and return its error.
func UnaryServerInterceptor(opts *Options) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		c, err := incoming(ctx, opts.lock(ctx, info.FullMethod, req))
		if err != nil {
			return nil, err
		}
		reply, err := handle(c.ctx, req)
		return reply, c.answer(err)
	}
}

// StreamServerInterceptor does for streams what UnaryServerInterceptor does.
func StreamServerInterceptor(opts *Options) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		ctx := s.Context()
		c, err := incoming(ctx, opts.lock(ctx, info.FullMethod, nil))
		if err != nil {
			return err
		}
		return c.answer(handle(srv, &serverStream{s, c.ctx}))
	}
}

// serverStream has the context with the mark.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// call is a call that a server got.
type call struct {
	ctx   context.Context // with the mark
	mark  fence.Mark      // zero if it had none
	again bool            // the client has sent it before
}

// incomingKey is the key of the mark that came with a call.
type incomingKey struct{}

// incoming reads the metadata of a call that needs the token of a lock, if the name is not
// empty. Its errors are statuses.
func incoming(ctx context.Context, lock string) (call, error) {
	c := call{ctx: ctx, again: len(metadata.ValueFromIncomingContext(ctx, attemptsKey)) > 0}
	values := metadata.ValueFromIncomingContext(ctx, Key)
	switch {
	case len(values) > 1:
		// Which of them is meant? One may come from a call that was passed on by mistake.
		return c, refusal(codes.InvalidArgument, fmt.Errorf("%w: %d values of %s, want one", fence.ErrNoToken, len(values), Key), c.mark)
	case len(values) == 0 && lock != "":
		return c, refusal(codes.FailedPrecondition, fmt.Errorf("%w for lock %q: the call has no metadata %s; give the client the interceptors of package grpcfence", fence.ErrNoToken, lock, Key), c.mark)
	case len(values) == 0:
		return c, nil
	}
	m, err := httpfence.Parse(values[0])
	if err != nil {
		return c, refusal(codes.InvalidArgument, err, c.mark)
	}
	c.mark = m
	if lock != "" && m.Lock != lock {
		return c, refusal(codes.FailedPrecondition, fmt.Errorf("%w: the resource belongs to lock %q, and this is %v", fence.ErrWrongLock, lock, m), m)
	}
	// The token is in the context now. A handler that copies the metadata to a call of its
	// own does not mean to send the token there.
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	delete(md, Key)
	c.ctx = context.WithValue(metadata.NewIncomingContext(fence.With(ctx, m), md), incomingKey{}, m)
	return c, nil
}
