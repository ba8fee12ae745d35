// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/k8slock"
	"github.com/redis/go-redis/v9"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var _ resourcelock.Interface = (*k8slock.Lock[resourcelock.LeaderElectionRecord])(nil)

func init() {
	// As many electors as extra has, each of which campaigns again after a term.
	roles["k8s electors"] = func(ctx context.Context, r *replica) error {
		n, err := strconv.Atoi(r.extra)
		if err != nil {
			return err
		}
		failed := make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				for ctx.Err() == nil && failed[i] == nil {
					failed[i] = oneTerm(ctx, r)
				}
			})
		}
		all.Wait()
		return errors.Join(failed...)
	}
}

// leadership is what the callbacks of one elector share.
type leadership struct {
	r    *replica
	lock *k8slock.Lock[resourcelock.LeaderElectionRecord]

	mu      sync.Mutex
	token   fencelock.Token // not 0 once it has started
	stopped bool
	over    sync.WaitGroup
}

// oneTerm campaigns and leads, and notes what client-go reports.
func oneTerm(ctx context.Context, r *replica) error {
	lock, ctx, err := k8slock.New[resourcelock.LeaderElectionRecord](ctx, r.client, "operator", nil)
	if err != nil {
		return err
	}
	defer lock.Close(context.Background())
	led := &leadership{r: r, lock: lock}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: led.started, OnStoppedLeading: led.ended},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	led.over.Wait()
	return nil
}

// started works until the term ends. client-go calls it in a goroutine, which can be later
// than the end.
func (l *leadership) started(ctx context.Context) {
	l.mu.Lock()
	lease := l.lock.Lease()
	if l.stopped || lease == nil {
		l.mu.Unlock()
		return
	}
	l.over.Add(1)
	defer l.over.Done()
	l.token = lease.Token()
	l.r.note("started %d", l.token)
	l.mu.Unlock()
	for ctx.Err() == nil {
		l.r.fenced(l.token, "worked")
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (l *leadership) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped = true; l.token != 0 {
		l.r.note("stopped %d", l.token)
	}
}

// appendFenced writes a line unless a greater token wrote one before.
var appendFenced = redis.NewScript(`
if tonumber(ARGV[1]) < tonumber(redis.call('GET', 'fence') or '0') then return redis.call('INCR', 'refused') end
redis.call('SET', 'fence', ARGV[1])
return redis.call('RPUSH', 'runs', ARGV[2])`)

// fenced writes down what the replica did, unless a later leader did something before.
func (r *replica) fenced(token fencelock.Token, what string) {
	line := fmt.Sprintf("%d %s %d", pid, what, token)
	if err := appendFenced.Run(context.Background(), r.redis, []string{"fence", "refused", "runs"}, int64(token), line).Err(); err != nil {
		r.note("failed %v", err)
	}
}

// TestK8sRelease: with ReleaseOnCancel the next elector leads as soon as the first has
// stopped. Without it, the lock would stay taken for an hour.
func TestK8sRelease(t *testing.T) {
	client := locksOn(t, newSite(t))(t)
	for range 3 {
		lock, ctx, err := k8slock.New[resourcelock.LeaderElectionRecord](t.Context(), client, "operator", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: time.Hour, RenewDeadline: time.Minute, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { cancel() }, OnStoppedLeading: func() {}},
		})
		cancel()
	}
	proved(t, "client-go", 0)
}

// TestK8sManager: a manager of controller-runtime leads with the lock, its work ends when the
// lock is lost, and the manager after it leads.
func TestK8sManager(t *testing.T) {
	client := locksOn(t, newSite(t))(t)
	var before fencelock.Token
	for range 2 {
		lock, ctx, err := k8slock.New[resourcelock.LeaderElectionRecord](t.Context(), client, "operator", nil)
		if err != nil {
			t.Fatal(err)
		}
		// There is no API server: the manager of this test has no controller.
		mgr, err := manager.New(&rest.Config{Host: "127.0.0.1:1"}, manager.Options{
			LeaderElection: true, LeaderElectionResourceLockInterface: lock,
			Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		})
		if err != nil {
			t.Fatal(err)
		}
		var token fencelock.Token
		err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			token = lock.Lease().Token()
			if _, err := client.ForceUnlock(ctx, "operator", token); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
		if !errors.Is(context.Cause(ctx), fencelock.ErrLost) || token <= before {
			t.Errorf("term %d after %d ended with %v, want a loss", token, before, context.Cause(ctx))
		}
		before = token
		if err := lock.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	proved(t, "controller-runtime", 0)
}
