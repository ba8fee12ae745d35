// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestUnlockThatWasNotDoneHidesNoLoss: the removal of a key that another program deletes did nothing, and the one that is repeated
// reports the loss.
func TestUnlockThatWasNotDoneHidesNoLoss(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	refuse := func(wanted func(call) bool) func(context.Context, call, func(context.Context) error) error {
		return func(ctx context.Context, c call, do func(context.Context) error) error {
			if wanted(c) {
				return errBusy
			}
			return do(ctx)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		refuse func(call) bool
	}{
		"not-sent":    {ctx: ended},
		"refused":     {ctx: t.Context(), refuse: func(c call) bool { return c.writes(prefix, true) }},
		"not-read":    {ctx: t.Context(), refuse: func(c call) bool { txn, ok := c.req.(*pb.TxnRequest); return ok && len(txn.Compare) == 0 }},
		"not-written": {ctx: t.Context(), refuse: func(c call) bool { return c.writes("broken|", false) }},
	} {
		w := &wire{}
		ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
		attempt(t, ses, claim(1, name), driver.Granted)
		_, err := cluster.Connect(t).Delete(t.Context(), prefix+name+"/", clientv3.WithPrefix())
		must.OK(t, err)
		if c.refuse != nil {
			w.set(refuse(c.refuse))
		}
		if found, err := ses.Withdraw(c.ctx, driver.Withdrawal{Seq: 1, Name: name}); err == nil || errors.Is(err, driver.ErrUnknown) {
			t.Errorf("%s: the withdrawal that was not done: %v, %v", name, found, err)
		}
		w.set(nil)
		if renewal, err := ses.KeepAlive(t.Context()); err != nil || len(renewal.Broken) != 1 {
			t.Errorf("%s: the renewal: %+v, %v; want claim 1 as broken", name, renewal, err)
		}
		withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: name}, driver.WasBroken)
	}
}
