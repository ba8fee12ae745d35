// SPDX-License-Identifier: Apache-2.0

package etcdfence

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// Guard guards keys by the token of one lock. It is safe for concurrent use and
// needs no closing.
type Guard struct {
	kv   clientv3.KV
	key  string
	lock string
}

// New returns a guard that keeps its fence under key, which must not be used for
// anything else. lock is the name of the lock whose token is checked; every process
// must name the same for a key, because the fence keeps the token only. It does no
// I/O.
func New(kv clientv3.KV, key, lock string) (*Guard, error) {
	if kv == nil || key == "" || lock == "" {
		return nil, errors.New("etcdfence: a guard needs a client, a key for its fence and the name of a lock")
	}
	return &Guard{kv, key, lock}, nil
}

// MaxOps is how many operations Do takes, with a server whose --max-txn-ops is
// 128, as by default. etcd counts them twice: they are there once for the first
// holder, who finds no fence, and once for the others.
const MaxOps = 128/2 - 1

// width is the number of digits of the greatest token. etcd compares values byte
// by byte, so the numbers must be of one length.
const width = 19

func digits(token uint64) string { return fmt.Sprintf("%0*d", width, token) }

// Raise raises the fence to the token that ctx carries. Do that before reading,
// unless Do reads, and with the token that Client.ForceUnlock returned, to fence a
// broken holder off. It returns an error that wraps fence.ErrStale if a newer
// token was there.
func (g *Guard) Raise(ctx context.Context) error {
	_, err := g.Do(ctx)
	return err
}

// Do raises the fence to the token that ctx carries and does the operations, in
// their order and in one transaction. It returns one response for each of them.
// clientv3.OpTxn makes some of them depend on conditions of your own; etcd looks
// at all conditions first, so they see the state before the transaction.
//
// It returns an error that wraps fence.ErrStale if it was refused: then nothing
// was done. Neither was it if etcd does not take the transaction, because it has
// more than MaxOps operations or writes a key twice: that error wraps the one of
// package rpctypes and says so. Any other error leaves the outcome unknown.
func (g *Guard) Do(ctx context.Context, ops ...clientv3.Op) ([]*pb.ResponseOp, error) {
	m, err := fence.FromContext(ctx, g.lock)
	if err != nil {
		return nil, err
	}
	then := append([]clientv3.Op{clientv3.OpPut(g.key, digits(uint64(m.Token))+" "+m.Holder)}, ops...)
	// A comparison with a value is false if the key is not there, so that has to
	// be asked apart. There is no "not above": below the next number is the same,
	// whatever holder comes after the digits.
	absent := clientv3.Compare(clientv3.CreateRevision(g.key), "=", 0)
	notAbove := clientv3.Compare(clientv3.Value(g.key), "<", digits(uint64(m.Token)+1))
	res, err := g.kv.Txn(ctx).If(absent).Then(then...).
		Else(clientv3.OpTxn([]clientv3.Cmp{notAbove}, then, []clientv3.Op{clientv3.OpGet(g.key)})).Commit()
	if err != nil {
		return nil, failure(err)
	}
	done := res.Responses
	if !res.Succeeded {
		inner := done[0].GetResponseTxn()
		done = inner.Responses
		if !inner.Succeeded {
			return nil, refusal(done[0].GetResponseRange(), m)
		}
	}
	return done[1:], nil
}

// failure distinguishes a transaction that etcd rejected from one that may have
// been applied. etcd validates a transaction before it applies any of it.
func failure(err error) error {
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) && answer.Code() == codes.InvalidArgument {
		return fmt.Errorf("etcdfence: etcd does not take this transaction, nothing was done: %w; see MaxOps, %d, and write each key once", err, MaxOps)
	}
	return fmt.Errorf("etcdfence: outcome unknown: %w", err)
}

// refusal names the mark that was in the way.
func refusal(kept *pb.RangeResponse, given fence.Mark) error {
	stale := &fence.StaleError{Given: given}
	if len(kept.Kvs) == 1 && len(kept.Kvs[0].Value) > width {
		value := string(kept.Kvs[0].Value)
		if token, err := strconv.ParseInt(value[:width], 10, 64); err == nil {
			stale.Newer = fence.Mark{Lock: given.Lock, Token: fencelock.Token(token), Holder: value[width+1:]}
		}
	}
	return stale
}
