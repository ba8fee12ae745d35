// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/filefence"
)

// value is the value of a lock behind this service.
func (s *service) value(conn *grpc.ClientConn, by caller, lock string, store func(lock string) (storage, error)) (*fencetest.Value, error) {
	st, err := store(lock)
	if err != nil {
		return nil, err
	}
	s.values.Store(lock, st)
	write := func(ctx context.Context, value string, lose bool) error {
		_, err := s.request(ctx, conn, by, lose, lock, value)
		return err
	}
	return &fencetest.Value{
		Enter:     func(ctx context.Context) (string, error) { return s.request(ctx, conn, by, false, lock) },
		Write:     func(ctx context.Context, value string) error { return write(ctx, value, false) },
		LoseReply: func(ctx context.Context, value string) error { return write(ctx, value, true) },
		Read:      st.Get,
	}, nil
}

// setting is what a proof varies.
type setting struct {
	name    string
	by      caller
	store   func(lock string) (storage, error)
	clients []grpc.DialOption
	server  func(s *service) []grpc.ServerOption // nil: with the interceptors
}

// harness has two replicas of a service over the same storage.
func harness(t *testing.T, with setting) *fencetest.Harness {
	var replicas [2]*service
	var conns [2]*grpc.ClientConn
	for i := range replicas {
		s := newService(t, with.server)
		replicas[i], conns[i] = s, s.connect(t, with.clients...)
	}
	return &fencetest.Harness{Name: with.name,
		Restart: func(ctx context.Context) error {
			for i, s := range replicas {
				if err := s.restart(ctx); err != nil {
					return err
				}
				// Without a token a call is tried again: then the client knows that it must connect again.
				if _, err := unary(ctx, conns[i], list("nobody's")); status.Code(err) != codes.NotFound {
					return fmt.Errorf("after a restart: %w", err)
				}
			}
			return nil
		},
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			v, err := replicas[0].value(conns[0], with.by, lock, with.store)
			if err == nil {
				v.Reopen = func(context.Context) (*fencetest.Value, error) {
					return replicas[1].value(conns[1], with.by, lock, with.store)
				}
			}
			return v, err
		}}
}

// inFiles keeps each value behind the guard of package filefence.
func inFiles(t *testing.T) func(lock string) (storage, error) {
	dir := t.TempDir()
	return func(lock string) (storage, error) {
		return filefence.NewLocal(filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(lock)))), lock)
	}
}

func TestServiceWithAGuard(t *testing.T) {
	for name, by := range map[string]caller{"unary": unary, "stream": stream} {
		t.Run(name, func(t *testing.T) {
			fencetest.Run(t, harness(t, setting{name: "gRPC, " + name + ", with guarded storage", by: by, store: inFiles(t), clients: fenced}))
		})
	}
}

// unguarded is a storage that leaves everything to the interceptors.
type unguarded struct {
	mu    sync.Mutex
	value string
}

func (s *unguarded) Enter(ctx context.Context) (string, error) { return s.Get(ctx) }

func (s *unguarded) Set(_ context.Context, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
	return nil
}

func (s *unguarded) Get(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, nil
}

// checked is a storage that checks in the handler, and remembers in its process.
type checked struct {
	*unguarded
	lock string
	mu   sync.Mutex
	kept fence.Mark
}

func (s *checked) admit(ctx context.Context) error {
	m, err := fence.FromContext(ctx, s.lock)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := fence.Check(s.kept, m); err != nil {
		return err
	}
	s.kept = m
	return nil
}

func (s *checked) Enter(ctx context.Context) (string, error) {
	if err := s.admit(ctx); err != nil {
		return "", err
	}
	return s.Get(ctx)
}

func (s *checked) Set(ctx context.Context, value string) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	return s.unguarded.Set(ctx, value)
}

// retried undoes what the interceptor of a client does against retries.
func retried(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.MaxRetryRPCBufferSize(1<<20))...)
}

// retryingClients send calls again by their service config.
var retryingClients = append([]grpc.DialOption{}, append(fenced, grpc.WithChainUnaryInterceptor(retried))...)

// uncounted is a server that is not told that a call was sent before, as behind some proxies.
func uncounted(s *service) []grpc.ServerOption {
	forget := func(ctx context.Context) context.Context {
		md, _ := metadata.FromIncomingContext(ctx)
		md.Delete("grpc-previous-rpc-attempts")
		return metadata.NewIncomingContext(ctx, md)
	}
	return append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(forget(ctx), req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(srv, &withContext{stream, forget(stream.Context())})
		})}, s.withFence()...)
}

type withContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *withContext) Context() context.Context { return s.ctx }

// TestALostReplyIsNotMadeARefusal: the client does not send a call with a token again, and
// if another client does, the server does not call it refused. Either is enough.
func TestALostReplyIsNotMadeARefusal(t *testing.T) {
	for name, with := range map[string]setting{
		"the client alone":           {by: unary, clients: fenced, server: uncounted},
		"the client alone, a stream": {by: stream, clients: fenced, server: uncounted},
		"the server alone":           {by: unary, clients: retryingClients},
	} {
		t.Run(name, func(t *testing.T) {
			with.name, with.store = name, inFiles(t)
			h := harness(t, with)
			for _, c := range fencetest.Cases() {
				if c.Name != "G7/lost-reply-overtaken" {
					continue
				}
				if r := c.Check(t.Context(), h); len(r.Failures) > 0 || r.Skipped != "" {
					t.Error(r.Failures, r.Skipped)
				}
			}
		})
	}
}

// TestWrongServicesAreRefused: what the package comment warns of.
func TestWrongServicesAreRefused(t *testing.T) {
	var values sync.Map // the storage of all replicas
	plain := func(lock string) *unguarded {
		v, _ := values.LoadOrStore(lock, &unguarded{})
		return v.(*unguarded)
	}
	alone := func(lock string) (storage, error) { return plain(lock), nil }
	inMemory := func(lock string) (storage, error) { return &checked{unguarded: plain(lock), lock: lock}, nil }
	for _, w := range []struct {
		caught string
		setting
	}{
		{"G2/delayed-writer", setting{name: "gRPC interceptors alone", by: unary, store: alone, clients: fenced}},
		{"G3/entry-in-steps", setting{name: "gRPC interceptors alone", by: stream, store: alone, clients: fenced}},
		{"G10/two-processes", setting{name: "a fence in the memory of a replica", by: unary, store: inMemory, clients: fenced}},
		{"G5/no-token", setting{name: "no interceptor at the client", by: unary, store: alone}},
		{"G7/lost-reply-overtaken", setting{name: "sent again by a service config", by: unary, store: inFiles(t),
			clients: retryingClients, server: uncounted}},
	} {
		t.Run(w.name+" "+w.caught, func(t *testing.T) { fencetest.Refuses(t, harness(t, w.setting), w.caught) })
	}
}
