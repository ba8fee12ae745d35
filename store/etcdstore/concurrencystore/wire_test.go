// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// wire is between a client and a real server. It counts, and a test can hold a call, change its reply or lose it.
type wire struct {
	mu       sync.Mutex
	hook     func(ctx context.Context, c call, do func(context.Context) error) error
	lost     bool // the next answer of a stream of keep-alives
	requests atomic.Int64
	bytes    atomic.Int64
}

// call is a call with its messages; reply is filled by do.
type call struct {
	method     string
	req, reply any
}

// set sets what is done with each call.
func (w *wire) set(hook func(ctx context.Context, c call, do func(context.Context) error) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = hook
}

// connect returns a client behind the wire.
func (w *wire) connect(t testing.TB, cluster *etcdtest.Cluster) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Addrs(), Logger: zap.NewNop(), DialOptions: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(w.unary), grpc.WithChainStreamInterceptor(w.stream), grpc.WithStatsHandler(w)}})
	must.OK(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *wire) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	do := func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) }
	w.mu.Lock()
	hook := w.hook
	w.mu.Unlock()
	if hook == nil {
		return do(ctx)
	}
	return hook(ctx, call{path.Base(method), req, reply}, do)
}

func (w *wire) stream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, d, cc, method, opts...)
	if err != nil || path.Base(method) != "LeaseKeepAlive" {
		return s, err
	}
	return &lossyStream{s, w}, nil
}

// lossyStream loses an answer, and breaks then.
type lossyStream struct {
	grpc.ClientStream
	w *wire
}

func (s *lossyStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if err == nil && s.w.lost {
		s.w.lost = false
		return errCut
	}
	return err
}

// errCut is what a client gets for a call that was sent and whose connection broke.
var errCut = status.Error(codes.Unavailable, "error reading from server: EOF")

// errBusy is how a server refuses a call that it did not begin.
var errBusy = status.Error(codes.ResourceExhausted, "etcdserver: too many requests")

// loseKeepAlive loses the next answer to a keep-alive.
func (w *wire) loseKeepAlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = true
}

// TagRPC, HandleRPC, TagConn and HandleConn implement stats.Handler.
func (w *wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (w *wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (w *wire) HandleConn(context.Context, stats.ConnStats)                       {}
func (w *wire) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.OutPayload:
		w.requests.Add(1)
		w.bytes.Add(int64(s.WireLength))
	case *stats.InPayload:
		w.bytes.Add(int64(s.WireLength))
	}
}

// cost returns how many messages were sent and how many bytes went both ways while f ran.
func (w *wire) cost(f func()) (requests, bytes int64) {
	r, b := w.requests.Load(), w.bytes.Load()
	f()
	return w.requests.Load() - r, w.bytes.Load() - b
}

// writes reports whether a call is a transaction that puts or deletes the key, whatever its comparisons say.
func (c call) writes(key string, deletes bool) bool {
	txn, ok := c.req.(*pb.TxnRequest)
	if !ok {
		return false
	}
	for _, op := range txn.Success {
		put, del := op.GetRequestPut(), op.GetRequestDeleteRange()
		if put != nil && !deletes && strings.Contains(string(put.Key), key) || del != nil && deletes && strings.Contains(string(del.Key), key) {
			return true
		}
	}
	return false
}

// loseOnce loses the reply to the first call that is as wanted; the returned channel is closed then.
func (w *wire) loseOnce(wanted func(call) bool) <-chan struct{} {
	lost := make(chan struct{})
	var once sync.Once
	w.set(func(ctx context.Context, c call, do func(context.Context) error) error {
		err := do(ctx)
		if err == nil && wanted(c) {
			once.Do(func() { close(lost); err = errCut })
		}
		return err
	})
	return lost
}

// delayed is a call that the network delays: its caller gives up, and it arrives later.
type delayed struct {
	sent          <-chan struct{} // closed when the caller has sent it
	arrive        func()          // lets it arrive
	arrived       <-chan struct{} // closed when the server has answered
	alreadyClosed sync.Once
}

// delay delays the first call that is as wanted.
func (w *wire) delay(wanted func(call) bool) *delayed {
	sent, release, arrived := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d := &delayed{sent: sent, arrived: arrived}
	d.arrive = func() { d.alreadyClosed.Do(func() { close(release) }) }
	var once sync.Once
	w.set(func(ctx context.Context, c call, do func(context.Context) error) error {
		first := false
		if wanted(c) {
			once.Do(func() { first = true })
		}
		if !first {
			return do(ctx)
		}
		done := make(chan error, 1)
		go func() {
			close(sent)
			<-release
			done <- do(context.WithoutCancel(ctx))
			close(arrived)
		}()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	})
	return d
}

// storeOf returns a store on a client.
func storeOf(t testing.TB, client *clientv3.Client) *concurrencystore.Store {
	t.Helper()
	store, err := concurrencystore.New(client, &concurrencystore.Options{Prefix: prefix})
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// open opens a session.
func open(t testing.TB, store *concurrencystore.Store, id driver.SessionID) driver.Session {
	t.Helper()
	ses, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("a"), ID: id, TTL: 30 * time.Second})
	must.OK(t, err)
	return ses
}

// claim is a claim that is queued.
func claim(seq uint64, name string) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "test"}}}
}

// attempt attempts a claim, which must come to a state.
func attempt(t testing.TB, ses driver.Session, c *driver.Claim, want driver.State) driver.Outcome {
	t.Helper()
	out, err := ses.Attempt(t.Context(), c)
	must.OK(t, err)
	if out.State != want {
		t.Fatalf("claim %d for %s is %v, want %v", c.Seq, c.Name, out.State, want)
	}
	return out
}

// withdraw withdraws a claim, which must be found as wanted.
func withdraw(t testing.TB, ses driver.Session, w driver.Withdrawal, want driver.Removed) {
	t.Helper()
	found, err := ses.Withdraw(t.Context(), w)
	must.OK(t, err)
	if found != want {
		t.Errorf("the withdrawal of claim %d for %s found it %v, want %v", w.Seq, w.Name, found, want)
	}
}

// keys returns the keys of a lock.
func keys(t testing.TB, cluster *etcdtest.Cluster, name string) (all []string) {
	t.Helper()
	resp, err := cluster.Connect(t).Get(t.Context(), prefix+name+"/", clientv3.WithPrefix())
	must.OK(t, err)
	for _, kv := range resp.Kvs {
		all = append(all, string(kv.Key))
	}
	return all
}

// answered repeats a call until the server answers.
func answered(t testing.TB, do func() error) error {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := do()
		if time.Now().After(end) || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
			return err
		}
	}
}
