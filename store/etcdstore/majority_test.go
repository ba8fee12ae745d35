// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// TestAllMembersRestart: a lease and a wait outlive a crash of the whole cluster.
func TestAllMembersRestart(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 3)
	expectHandoff(t, cluster, func(context.Context) {
		cluster.Kill()
		must.OK(t, cluster.Start())
	})
}

// TestNoMajority: without a majority nothing is granted, and a holder is notified. When
// the majority is back the lock can be acquired, with a higher token.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster := etcdtest.Start(t, 3)
	a, b := process(t, cluster, 6*time.Second), process(t, cluster, 6*time.Second)
	held, err := a.Mutex("x").Lock(ctx)
	must.OK(t, err)
	if _, err := b.Mutex("y").Lock(ctx); err != nil { // it has its session before
		t.Fatal(err)
	}
	var resumes []func()
	for _, m := range cluster.Members[:2] {
		resumes = append(resumes, m.Pause())
	}
	select {
	case <-held.Context().Done():
	case <-ctx.Done():
		t.Fatal("the holder was not notified")
	}
	if !errors.Is(held.Err(), fencelock.ErrLost) {
		t.Errorf("the lease ended by %v, want ErrLost", held.Err())
	}
	if l, err := b.Mutex("z").TryLock(ctx); err == nil {
		t.Errorf("%q was granted by a minority, with token %v", l.Name(), l.Token())
	}
	for _, resume := range resumes {
		resume()
	}
	next, err := b.Mutex("x").Lock(ctx)
	must.OK(t, err)
	if next.Token() <= held.Token() {
		t.Errorf("token %v after %v", next.Token(), held.Token())
	}
}
