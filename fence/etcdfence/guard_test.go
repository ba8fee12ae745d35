// SPDX-License-Identifier: Apache-2.0

package etcdfence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/etcdfence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/internal/must"
)

// steps makes every round trip a step of fencetest.
type steps struct{ clientv3.KV }

// Get is a step.
func (s steps) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	fencetest.Step(ctx)
	return s.KV.Get(ctx, key, opts...)
}

// Put is a step.
func (s steps) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	fencetest.Step(ctx)
	return s.KV.Put(ctx, key, value, opts...)
}

// Txn is a step: every caller commits its transaction as soon as it has built it.
func (s steps) Txn(ctx context.Context) clientv3.Txn {
	fencetest.Step(ctx)
	return s.KV.Txn(ctx)
}

func read(ctx context.Context, kv clientv3.KV, key string) (string, error) {
	res, err := kv.Get(ctx, key)
	if err != nil || len(res.Kvs) == 0 {
		return "", err
	}
	return string(res.Kvs[0].Value), nil
}

// value is a key with the name of its lock, behind a guard. Another process has
// the client other.
func (s *server) value(kv, other clientv3.KV, lock string) (*fencetest.Value, error) {
	g, err := etcdfence.New(kv, "fences/"+lock, lock)
	if err != nil {
		return nil, err
	}
	return &fencetest.Value{
		Reopen: func(context.Context) (*fencetest.Value, error) { return s.value(other, kv, lock) },
		Enter: func(ctx context.Context) (string, error) {
			res, err := g.Do(ctx, clientv3.OpGet(lock))
			if err != nil || len(res[0].GetResponseRange().Kvs) == 0 {
				return "", err
			}
			return string(res[0].GetResponseRange().Kvs[0].Value), nil
		},
		Write: func(ctx context.Context, v string) error {
			_, err := g.Do(ctx, clientv3.OpPut(lock, v))
			return err
		},
		Read: func(ctx context.Context) (string, error) { return read(ctx, kv, lock) },
		LoseReply: func(ctx context.Context, v string) error {
			var lose atomic.Bool
			lose.Store(true)
			lossy := s.connect(&lose)
			defer lossy.Close()
			g, err := etcdfence.New(lossy, "fences/"+lock, lock)
			if err != nil {
				return err
			}
			_, err = g.Do(ctx, clientv3.OpPut(lock, v))
			return err
		},
	}, nil
}

func TestGuard(t *testing.T) {
	s := startServer(t)
	client := s.connect(&atomic.Bool{})
	defer client.Close()
	second := s.connect(&atomic.Bool{})
	defer second.Close()
	kv, other := steps{client}, steps{second}
	fencetest.Run(t, &fencetest.Harness{Name: "etcd", Restart: s.restart,
		New: func(_ context.Context, lock string) (*fencetest.Value, error) { return s.value(kv, other, lock) }})

	v, err := s.value(kv, other, "counted")
	must.OK(t, err)
	ctx := fence.With(t.Context(), fence.Mark{Lock: "counted", Token: 512})
	with, err := fencetest.Trips(ctx, func(ctx context.Context) error {
		_, err := v.Enter(ctx)
		return errors.Join(err, v.Write(ctx, "x"))
	})
	must.OK(t, err)
	without, err := fencetest.Trips(ctx, func(ctx context.Context) error {
		_, err := read(ctx, kv, "bare")
		_, err2 := kv.Put(ctx, "bare", "x")
		return errors.Join(err, err2)
	})
	if err != nil || without != 2 {
		t.Fatalf("a bare read and write: %d round trips, %v", without, err)
	}
	t.Logf("fencetest: etcd adds %d round trips", with-without)
	if with > without {
		t.Errorf("%d round trips with a guard, %d without", with, without)
	}
}

// TestOperationsAndTheirResponses: several at once, in order, with conditions.
func TestOperationsAndTheirResponses(t *testing.T) {
	s := startServer(t)
	client := s.connect(&atomic.Bool{})
	defer client.Close()
	g, err := etcdfence.New(client, "fence", "a")
	must.OK(t, err)
	newer := fence.Mark{Lock: "a", Token: 768, Holder: "ann@host:1"}
	ctx := fence.With(t.Context(), newer)
	for round := range 2 { // without a fence, and with one
		res, err := g.Do(ctx, clientv3.OpPut("x", "1"), clientv3.OpGet("x"),
			clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value("x"), "=", "1")}, []clientv3.Op{clientv3.OpPut("y", "2")}, nil))
		if err != nil || len(res) != 3 || string(res[1].GetResponseRange().Kvs[0].Value) != "1" ||
			res[2].GetResponseTxn().Succeeded != (round == 1) { // conditions look at the state before
			t.Fatalf("got %v, %v", res, err)
		}
	}
	var stale *fence.StaleError
	if err := g.Raise(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})); !errors.As(err, &stale) || stale.Newer != newer {
		t.Errorf("got %v, want the newer mark named", err)
	}
}

// TestWhatEtcdDoesNotTake is not done, and the error says so.
func TestWhatEtcdDoesNotTake(t *testing.T) {
	s := startServer(t)
	client := s.connect(&atomic.Bool{})
	defer client.Close()
	g, err := etcdfence.New(client, "fence", "a")
	must.OK(t, err)
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})
	puts := func(n int) (ops []clientv3.Op) {
		for i := range n {
			ops = append(ops, clientv3.OpPut(fmt.Sprint("many/", i), "x"))
		}
		return ops
	}
	for _, tt := range []struct {
		what string
		ops  []clientv3.Op
		want error
	}{
		{"one operation too many", puts(etcdfence.MaxOps + 1), rpctypes.ErrTooManyOps},
		{"a key twice", []clientv3.Op{clientv3.OpPut("many/0", "1"), clientv3.OpPut("many/0", "2")}, rpctypes.ErrDuplicateKey},
		{"the fence itself", []clientv3.Op{clientv3.OpPut("fence", "1")}, rpctypes.ErrDuplicateKey},
	} {
		_, err := g.Do(ctx, tt.ops...)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), "nothing was done") {
			t.Errorf("%s: got %v", tt.what, err)
		}
	}
	if res, err := client.Get(t.Context(), "", clientv3.WithPrefix()); err != nil || res.Count != 0 {
		t.Errorf("something was done: %v, %v", res, err)
	}
	for range 2 { // without a fence, and with one
		if _, err := g.Do(ctx, puts(etcdfence.MaxOps)...); err != nil {
			t.Errorf("%d operations: %v", etcdfence.MaxOps, err)
		}
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	for what, err := range map[string]error{
		"no client": second(etcdfence.New(nil, "k", "a")),
		"no key":    second(etcdfence.New(steps{}, "", "a")),
		"no lock":   second(etcdfence.New(steps{}, "k", "")),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }
