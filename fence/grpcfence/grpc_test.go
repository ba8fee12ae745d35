// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/grpcfence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// recorder is a storage that remembers what its handler got, and returns an error.
type recorder struct {
	got  fence.Mark
	md   metadata.MD
	err  error
	call func(ctx context.Context) error // of the handler, to another service
}

func (r *recorder) Enter(ctx context.Context) (string, error) {
	r.got, _ = fence.Innermost(ctx)
	r.md, _ = metadata.FromIncomingContext(ctx)
	if r.call != nil {
		return "", r.call(ctx)
	}
	return "", r.err
}

func (r *recorder) Set(ctx context.Context, _ string) error {
	_, err := r.Enter(ctx)
	return err
}

func (r *recorder) Get(context.Context) (string, error) { return "", nil }

// recording is a service with a value "a" that records.
func recording(t *testing.T, options func(*service) []grpc.ServerOption) (*service, *recorder) {
	s, r := newService(t, options), &recorder{}
	s.values.Store("a", r)
	return s, r
}

// needs are server options that need the token of lock "a".
func needs(*service) []grpc.ServerOption {
	opts := &grpcfence.Options{Lock: func(_ context.Context, method string, _ any) string {
		if strings.HasPrefix(method, "/fencetest.Values/") {
			return "a"
		}
		return ""
	}}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(grpcfence.UnaryServerInterceptor(opts)),
		grpc.ChainStreamInterceptor(grpcfence.StreamServerInterceptor(opts))}
}

var both = map[string]caller{"unary": unary, "stream": stream}

// TestClientSendsTheLeaseOfTheContext, in place of any token that was in the metadata.
func TestClientSendsTheLeaseOfTheContext(t *testing.T) {
	s, r := recording(t, nil)
	lock := ""
	opts := &grpcfence.Options{Lock: func(_ context.Context, method string, _ any) string {
		if !strings.HasPrefix(method, "/fencetest.Values/") {
			t.Errorf("the method is %q", method)
		}
		return lock
	}}
	conn := s.connect(t, grpc.WithChainUnaryInterceptor(grpcfence.UnaryClientInterceptor(opts)),
		grpc.WithChainStreamInterceptor(grpcfence.StreamClientInterceptor(opts)))
	c, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	must.OK(t, err)
	defer c.Close(context.Background())
	for name, by := range both {
		send := func(ctx context.Context, needed string) error {
			r.got, lock = fence.Mark{}, needed
			_, err := by(ctx, conn, list("a"))
			return err
		}
		err = c.Do(t.Context(), "a", func(ctx context.Context, l *fencelock.Lease) error {
			marked := fence.With(ctx, fence.Mark{Lock: "b", Token: 7})
			copied := metadata.AppendToOutgoingContext(ctx, grpcfence.Key, "a;1", "Fencing-Token", "a;2", "other", "x")
			for _, tt := range []struct {
				ctx  context.Context
				lock string
				want fence.Mark
			}{{ctx, "", fence.Of(l)}, {ctx, "a", fence.Of(l)}, {marked, "a", fence.Of(l)}, {copied, "", fence.Of(l)},
				{marked, "", fence.Mark{Lock: "b", Token: 7}}, {marked, "b", fence.Mark{Lock: "b", Token: 7}}} {
				if err := send(tt.ctx, tt.lock); err != nil || r.got != tt.want {
					t.Errorf("%s, lock %q: the service got %v, %v, want %v", name, tt.lock, r.got, err, tt.want)
				}
			}
			before := s.handled.Load()
			if err := send(ctx, "b"); !errors.Is(err, fence.ErrWrongLock) || s.handled.Load() != before {
				t.Errorf("%s: another lock's token: %v, %d calls", name, err, s.handled.Load()-before)
			}
			return nil
		})
		must.OK(t, err)
		before := s.handled.Load()
		if err := send(t.Context(), "a"); !errors.Is(err, fence.ErrNoToken) || s.handled.Load() != before {
			t.Errorf("%s: a call that needs a token and has none: %v, %d calls", name, err, s.handled.Load()-before)
		}
		stray := metadata.AppendToOutgoingContext(t.Context(), grpcfence.Key, "a;1", "other", "x")
		if err := send(stray, ""); err != nil || r.got != (fence.Mark{}) || len(r.md.Get("other")) != 1 {
			t.Errorf("%s: a call without a mark, and with copied metadata: %v, the service got %v and %v", name, err, r.got, r.md)
		}
	}
}

// TestATokenGoesOneHop: a handler that calls on sends its own lease, or what it names.
func TestATokenGoesOneHop(t *testing.T) {
	next, got := recording(t, nil)
	first, at := recording(t, nil)
	named := &grpcfence.Options{Lock: func(context.Context, string, any) string { return "a" }}
	plain, fenced, passing := next.connect(t), next.connect(t, fenced...),
		next.connect(t, grpc.WithChainUnaryInterceptor(grpcfence.UnaryClientInterceptor(named)))
	client := first.connect(t, fencedOptions()...)
	mark := fence.Mark{Lock: "a", Token: 512, Holder: "ann"}
	own := fence.Mark{Lock: "own", Token: 7}
	copying := func(ctx context.Context) context.Context { // as proxies do
		md, _ := metadata.FromIncomingContext(ctx)
		return metadata.NewOutgoingContext(ctx, md)
	}
	for _, tt := range []struct {
		what string
		call func(ctx context.Context) error
		want fence.Mark
	}{
		{"as it is", func(ctx context.Context) error { return second(unary(ctx, fenced, list("a"))) }, fence.Mark{}},
		{"a stream", func(ctx context.Context) error { return second(stream(ctx, fenced, list("a"))) }, fence.Mark{}},
		{"copied metadata", func(ctx context.Context) error { return second(unary(copying(ctx), plain, list("a"))) }, fence.Mark{}},
		{"its own", func(ctx context.Context) error { return second(unary(fence.With(ctx, own), fenced, list("a"))) }, own},
		{"named", func(ctx context.Context) error { return second(unary(ctx, passing, list("a"))) }, mark},
	} {
		at.call, got.got = tt.call, fence.Mark{}
		if _, err := unary(fence.With(t.Context(), mark), client, list("a")); err != nil || at.got != mark || got.got != tt.want {
			t.Errorf("%s: %v; the service got %v, the next %v, want %v", tt.what, err, at.got, got.got, tt.want)
		}
	}
}

func fencedOptions() []grpc.DialOption { return fenced }

// TestServerAnswers: what a client of any kind sends, and what it gets.
func TestServerAnswers(t *testing.T) {
	s, r := recording(t, needs)
	plain := s.connect(t)
	stale := &fence.StaleError{Given: fence.Mark{Lock: "a", Token: 512}, Newer: fence.Mark{Lock: "a", Token: 768, Holder: "bob"}}
	elsewhere := &fence.StaleError{Given: fence.Mark{Lock: "mine", Token: 512}}
	for name, by := range both {
		for _, tt := range []struct {
			values []string
			err    error // of the handler
			code   codes.Code
			reason string
		}{
			{nil, nil, codes.FailedPrecondition, "FENCE_NO_TOKEN"},
			{[]string{"nonsense"}, nil, codes.InvalidArgument, "FENCE_NO_TOKEN"},
			{[]string{"a;0"}, nil, codes.InvalidArgument, "FENCE_NO_TOKEN"},
			{[]string{"a;1", "a;2"}, nil, codes.InvalidArgument, "FENCE_NO_TOKEN"},
			{[]string{"b;512"}, nil, codes.FailedPrecondition, "FENCE_WRONG_LOCK"},
			{[]string{"a;512;ann"}, nil, codes.OK, ""},
			{[]string{"a;512"}, stale, codes.Aborted, "FENCE_STALE"},
			{[]string{"a;512"}, fmt.Errorf("mine: %w", stale), codes.Aborted, "FENCE_STALE"},
			{[]string{"a;512"}, elsewhere, codes.Unknown, ""},
			{[]string{"a;513"}, stale, codes.Unknown, ""}, // of another acquisition
			{[]string{"a;512"}, fence.ErrNoToken, codes.FailedPrecondition, "FENCE_NO_TOKEN"},
			{[]string{"a;512"}, status.Error(codes.DataLoss, "mine"), codes.DataLoss, ""},
		} {
			ctx := t.Context()
			for _, v := range tt.values {
				ctx = metadata.AppendToOutgoingContext(ctx, grpcfence.Key, v)
			}
			r.err, r.got = tt.err, fence.Mark{}
			_, err := by(ctx, plain, list("a"))
			reason := ""
			for _, d := range status.Convert(err).Details() {
				reason = d.(*errdetails.ErrorInfo).GetReason()
			}
			if status.Code(err) != tt.code || reason != tt.reason {
				t.Errorf("%s, %q and %v: got %v, reason %q", name, tt.values, tt.err, err, reason)
			}
			if handed := r.got.Token != 0; handed && httpfence.Format(r.got) != tt.values[0] || !handed && (tt.code == codes.OK || tt.err != nil) {
				t.Errorf("%s, %q: the handler got %v", name, tt.values, r.got)
			}
		}
	}
}

// TestClientUnderstandsRefusals, of what it sent and of nothing else.
func TestClientUnderstandsRefusals(t *testing.T) {
	s, r := recording(t, nil)
	conn := s.connect(t, fenced...)
	sent := fence.Mark{Lock: "a", Token: 512, Holder: "ann"}
	newer := fence.Mark{Lock: "a", Token: 768, Holder: "bob"}
	answer := func(reason string, fields map[string]string) error {
		st, err := status.New(codes.Aborted, "why").WithDetails(&errdetails.ErrorInfo{Domain: "fencelock", Reason: reason, Metadata: fields})
		must.OK(t, err)
		return st.Err()
	}
	for name, by := range both {
		for _, tt := range []struct {
			what  string
			err   error
			want  error
			newer fence.Mark
		}{
			{"stale", &fence.StaleError{Given: sent, Newer: newer}, fence.ErrStale, newer},
			{"stale, from nobody", &fence.StaleError{Given: sent}, fence.ErrStale, fence.Mark{}},
			{"stale, from a service in another language", answer("FENCE_STALE", map[string]string{"given": "a;512"}), fence.ErrStale, fence.Mark{}},
			{"another's, passed on", answer("FENCE_STALE", map[string]string{"given": "b;512"}), nil, fence.Mark{}},
			{"an older one of ours", answer("FENCE_STALE", map[string]string{"given": "a;256"}), nil, fence.Mark{}},
			{"of nothing", answer("FENCE_STALE", nil), nil, fence.Mark{}},
			{"a newer that is not", answer("FENCE_STALE", map[string]string{"given": "a;512", "newer": "a;256"}), fence.ErrStale, fence.Mark{}},
			{"no token", fence.ErrNoToken, fence.ErrNoToken, fence.Mark{}},
			{"wrong lock", fence.ErrWrongLock, fence.ErrWrongLock, fence.Mark{}},
			{"a reason that we do not know", answer("FENCE_OTHER", nil), nil, fence.Mark{}},
			{"aborted for another reason", status.Error(codes.Aborted, "deadlock"), nil, fence.Mark{}},
		} {
			r.err = tt.err
			_, err := by(fence.With(t.Context(), sent), conn, list("a"))
			var stale *fence.StaleError
			isStale := errors.As(err, &stale)
			if tt.want == nil {
				if err == nil || isStale || errors.Is(err, fence.ErrNoToken) || errors.Is(err, fence.ErrWrongLock) {
					t.Errorf("%s, %s: got %v", name, tt.what, err)
				}
				continue
			}
			if !errors.Is(err, tt.want) || isStale != (tt.want == fence.ErrStale) || status.Code(err) == codes.Unknown {
				t.Errorf("%s, %s: got %v, code %v", name, tt.what, err, status.Code(err))
			}
			if isStale && (stale.Given != sent || stale.Newer != tt.newer) {
				t.Errorf("%s, %s: got %v and %v", name, tt.what, stale.Given, stale.Newer)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }
