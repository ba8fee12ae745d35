// SPDX-License-Identifier: Apache-2.0

package etcdfence_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
)

// wrongGuards are what people write, on a key with the name of the lock.
var wrongGuards = []struct {
	name, caught string
	change       func(kv clientv3.KV, lock string, v *fencetest.Value)
}{
	{"check, then put", "G4/write-in-steps", func(kv clientv3.KV, lock string, v *fencetest.Value) {
		enter := v.Enter
		v.Write = func(ctx context.Context, value string) error {
			if _, err := enter(ctx); err != nil {
				return err
			}
			_, err := kv.Put(ctx, lock, value)
			return err
		}
	}},
	{"get before the fence", "G3/entry-in-steps", func(kv clientv3.KV, lock string, v *fencetest.Value) {
		enter := v.Enter
		v.Enter = func(ctx context.Context) (string, error) {
			value, err := read(ctx, kv, lock)
			if err != nil {
				return "", err
			}
			_, err = enter(ctx)
			return value, err
		}
	}},
	{"no guard at all", "G2/delayed-writer", func(kv clientv3.KV, lock string, v *fencetest.Value) {
		v.Enter = v.Read
		v.Write = func(ctx context.Context, value string) error {
			_, err := kv.Put(ctx, lock, value)
			return err
		}
	}},
	{"tokens as plain text", "G6/numbers", func(kv clientv3.KV, lock string, v *fencetest.Value) {
		byTxn(kv, lock, v, func(m fence.Mark) (string, string) { return m.Token.String(), m.Token.String() })
	}},
	{"> for >=", "G1/retry", func(kv clientv3.KV, lock string, v *fencetest.Value) {
		byTxn(kv, lock, v, func(m fence.Mark) (string, string) {
			return fmt.Sprintf("%019d", m.Token-1), fmt.Sprintf("%019d", m.Token)
		})
	}},
}

// byTxn is a guard with another rule: it refuses a token if the value that it keeps
// is above the limit.
func byTxn(kv clientv3.KV, lock string, v *fencetest.Value, rule func(fence.Mark) (limit, keep string)) {
	admit := func(ctx context.Context, ops ...clientv3.Op) error {
		m, err := fence.FromContext(ctx, lock)
		if err != nil {
			return err
		}
		key := "other/" + lock
		limit, keep := rule(m)
		res, err := kv.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0), clientv3.Compare(clientv3.Value(key), ">", limit)).
			Else(append(ops, clientv3.OpPut(key, keep))...).Commit()
		if err == nil && res.Succeeded {
			return &fence.StaleError{Given: m}
		}
		return err
	}
	v.Write = func(ctx context.Context, value string) error { return admit(ctx, clientv3.OpPut(lock, value)) }
	v.Enter = func(ctx context.Context) (string, error) {
		if err := admit(ctx); err != nil {
			return "", err
		}
		return read(ctx, kv, lock)
	}
}

func TestWrongGuardsAreRefused(t *testing.T) {
	s := startServer(t)
	client := s.connect(&atomic.Bool{})
	defer client.Close()
	for _, w := range wrongGuards {
		t.Run(w.name, func(t *testing.T) {
			fencetest.Refuses(t, &fencetest.Harness{Name: w.name + " on etcd",
				New: func(_ context.Context, lock string) (*fencetest.Value, error) {
					v, err := s.value(steps{client}, steps{client}, lock)
					if err == nil {
						w.change(steps{client}, lock, v)
					}
					return v, err
				}}, w.caught)
		})
	}
}
