// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
)

// Options are the options of the interceptors; nil means the defaults.
type Options struct {
	// Lock returns which lock's token a call needs, by its method, such as
	// "/shop.Orders/Pay", and by its request, which is nil for a stream. A call that needs
	// a token and has none is not sent by a client, and is rejected by a server. If Lock is nil, or
	// returns an empty name, the call needs none: a client sends the mark that this process
	// added to the context last, if there is any, and a server leaves the decision to the guard.
	Lock func(ctx context.Context, method string, req any) string
}

func (o *Options) lock(ctx context.Context, method string, req any) string {
	if o == nil || o.Lock == nil {
		return ""
	}
	return o.Lock(ctx, method, req)
}

// UnaryClientInterceptor sends the token that the context of a call carries, and returns
// rejections of the service as errors that wrap fence.ErrStale, fence.ErrNoToken or
// fence.ErrWrongLock: then nothing was changed. Any other error leaves the outcome of a
// write unknown. A call with a token is not tried again by a retry policy.
func UnaryClientInterceptor(opts *Options) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, callOpts ...grpc.CallOption) error {
		ctx, sent, err := outgoing(ctx, opts.lock(ctx, method, req))
		if err != nil {
			return err
		}
		if sent.Token != 0 {
			// Without a buffer for it gRPC cannot send the request a second time. There is no option
			// of a call that says so. What a server has surely not processed is not sent again either.
			callOpts = append(callOpts[:len(callOpts):len(callOpts)], grpc.MaxRetryRPCBufferSize(0))
		}
		return received(invoke(ctx, method, req, reply, cc, callOpts...), sent)
	}
}

// StreamClientInterceptor does for streams what UnaryClientInterceptor does. The token is
// sent once, when the stream begins, and the guard checks it with every write. A rejection
// is of one write: what the stream wrote before stays.
func StreamClientInterceptor(opts *Options) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, callOpts ...grpc.CallOption) (grpc.ClientStream, error) {
		ctx, sent, err := outgoing(ctx, opts.lock(ctx, method, nil))
		if err != nil {
			return nil, err
		}
		s, err := open(ctx, desc, cc, method, callOpts...)
		if err != nil {
			return nil, received(err, sent)
		}
		if sent.Token != 0 {
			// From here on gRPC does not retry this stream: Context is documented to disable it. A
			// buffer of no bytes would allow a retry until the first message, and a handler can write before.
			_ = s.Context()
		}
		return &clientStream{s, sent}, nil
	}
}

// clientStream returns the rejections of its service as errors of package fence.
type clientStream struct {
	grpc.ClientStream
	sent fence.Mark
}

// Header implements grpc.ClientStream.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, received(err, s.sent)
}

// CloseSend implements grpc.ClientStream.
func (s *clientStream) CloseSend() error { return received(s.ClientStream.CloseSend(), s.sent) }

// SendMsg implements grpc.ClientStream. If the stream has ended it returns io.EOF, and RecvMsg the reason.
func (s *clientStream) SendMsg(m any) error { return received(s.ClientStream.SendMsg(m), s.sent) }

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error { return received(s.ClientStream.RecvMsg(m), s.sent) }

// outgoing returns a context for a call that needs the token of a lock, if the name is not
// empty, and the mark that goes along, zero if none does.
func outgoing(ctx context.Context, lock string) (context.Context, fence.Mark, error) {
	m, err := toSend(ctx, lock)
	if err != nil && lock != "" {
		return ctx, fence.Mark{}, err
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	switch {
	case err == nil:
		if md == nil {
			md = metadata.MD{}
		}
		md.Set(Key, httpfence.Format(m)) // in place of any that was there: a server takes one
	case len(md.Get(Key)) > 0:
		// Whoever copied the metadata of an incoming call did not mean to send its token.
		delete(md, Key)
	default:
		return ctx, fence.Mark{}, nil
	}
	return metadata.NewOutgoingContext(ctx, md), m, nil
}

// toSend returns the mark of a lock, or the innermost that did not come with a call.
func toSend(ctx context.Context, lock string) (fence.Mark, error) {
	if lock != "" {
		return fence.FromContext(ctx, lock)
	}
	m, err := fence.Innermost(ctx)
	if came, ok := ctx.Value(incomingKey{}).(fence.Mark); ok && err == nil && came == m {
		return fence.Mark{}, fence.ErrNoToken
	}
	if err != nil {
		return fence.Mark{}, err
	}
	return m, nil
}
