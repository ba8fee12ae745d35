// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const prefix = "/locks/"

// patience is for what must happen, however slow the machine is.
const patience = 2 * time.Minute

// within returns what comes over a channel.
func within[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("nothing came: %s", what)
	}
	return v
}

// locks is a client of the store, whose leases outlive a machine that stands still for a while.
func locks(t testing.TB, cluster *etcdtest.Cluster) *fencelock.Client {
	return locksFor(t, cluster, 30*time.Second)
}

func locksFor(t testing.TB, cluster *etcdtest.Cluster, ttl time.Duration) *fencelock.Client {
	t.Helper()
	store, err := concurrencystore.New(cluster.Connect(t), &concurrencystore.Options{Prefix: prefix})
	must.OK(t, err)
	c, err := fencelock.New(store, &fencelock.Options{TTL: ttl})
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// peer is another client of the same lock.
type peer struct {
	name string
	// lock takes a lock, with a lease of so many seconds, and waits for it until the context ends. unlock gives it back; kill ends the
	// client as a crash does, and pause stops it until the returned function is called. They may be nil.
	lock func(ctx context.Context, t testing.TB, cluster *etcdtest.Cluster, name string, ttl int) (held held, err error)
}

type held struct {
	unlock func() error
	kill   func()
	pause  func() (resume func())
}

// The leases of other clients in seconds: of those that the lock is waited for after their death, and of those that live.
const brief, lasting = 2, 30

// session opens a session of package concurrency.
func session(t testing.TB, cluster *etcdtest.Cluster) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(cluster.Connect(t), concurrency.WithTTL(lasting))
	must.OK(t, err)
	return s
}

var peers = []peer{
	{"concurrency.Mutex", func(ctx context.Context, t testing.TB, cluster *etcdtest.Cluster, name string, ttl int) (held, error) {
		s, err := concurrency.NewSession(cluster.Connect(t), concurrency.WithTTL(ttl))
		if err != nil {
			return held{}, err
		}
		m := concurrency.NewMutex(s, prefix+name)
		err = m.Lock(ctx)
		return held{unlock: func() error { return m.Unlock(context.Background()) }, kill: s.Orphan}, err
	}},
	{"concurrency.Election", func(ctx context.Context, t testing.TB, cluster *etcdtest.Cluster, name string, ttl int) (held, error) {
		s, err := concurrency.NewSession(cluster.Connect(t), concurrency.WithTTL(ttl))
		if err != nil {
			return held{}, err
		}
		e := concurrency.NewElection(s, prefix+name)
		err = e.Campaign(ctx, "host-1:8080")
		return held{unlock: func() error { return e.Resign(context.Background()) }, kill: s.Orphan}, err
	}},
	{"etcdctl lock", etcdctlLock},
}

// etcdctlLock runs etcdctl lock, which writes the key when it has it, and waits for a signal. It ends with the context.
func etcdctlLock(ctx context.Context, t testing.TB, cluster *etcdtest.Cluster, name string, ttl int) (held, error) {
	cmd := exec.CommandContext(ctx, "etcdctl", "--endpoints", cluster.Members[0].Addr, "lock", "--ttl", strconv.Itoa(ttl), prefix+name)
	cmd.Env = append(cmd.Environ(), "ETCDCTL_API=3")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return held{}, err
	}
	if err := cmd.Start(); err != nil {
		return held{}, err
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && errors.Is(err, io.EOF) {
		return held{}, fmt.Errorf("etcdctl ended: %w", cmd.Wait())
	}
	if key := strings.TrimSpace(line); !strings.HasPrefix(key, prefix+name+"/") {
		err = errors.Join(err, fmt.Errorf("etcdctl holds %q", key))
	}
	return held{
		unlock: func() error { _ = cmd.Process.Signal(syscall.SIGINT); _ = cmd.Wait(); return nil },
		kill:   func() { _ = cmd.Process.Kill() },
		pause: func() func() {
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			return func() { _ = cmd.Process.Signal(syscall.SIGCONT) }
		},
	}, err
}

// TestShared shares locks with the other clients of the format, in both directions.
func TestShared(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("etcdctl"); err != nil && p.name == "etcdctl lock" {
				t.Skip("etcdctl is not installed; on Debian: apt-get install etcd-client")
			}
			base := strings.ReplaceAll(p.name, " ", "-")
			t.Run("woken by it", func(t *testing.T) { wokenByPeer(t, cluster, p, base+"/a") })
			t.Run("wakes it", func(t *testing.T) { wakesPeer(t, cluster, p, base+"/b") })
			t.Run("killed", func(t *testing.T) { killedPeer(t, cluster, p, base+"/c") })
			t.Run("paused", func(t *testing.T) { pausedPeer(t, cluster, p, base+"/d") })
		})
	}
}

// result is what a Lock in the background came to. Its goroutine does not fail the test, which may have ended by then.
type result struct {
	lease *fencelock.Lease
	err   error
}

// later locks in the background.
func later(t testing.TB, c *fencelock.Client, name string) <-chan result {
	got := make(chan result, 1)
	go func() {
		l, err := c.Mutex(name).Lock(t.Context())
		got <- result{l, err}
	}()
	return got
}

// granted waits for a Lock in the background.
func granted(t testing.TB, what string, got <-chan result) *fencelock.Lease {
	t.Helper()
	r := within(t, what, got)
	must.OK(t, r.err)
	return r.lease
}

// bounded returns a context that ends before the test takes the time of all others.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// queued waits until a lock has so many waiters.
func queued(t testing.TB, c *fencelock.Client, name string, n int) {
	t.Helper()
	must.OK(t, servers.Await("the waiter is in the queue", func() bool {
		st, err := c.Inspect(t.Context(), name)
		return err == nil && st.Waiting == n
	}))
}

func wokenByPeer(t *testing.T, cluster *etcdtest.Cluster, p peer, name string) {
	c := locks(t, cluster)
	h, err := p.lock(bounded(t), t, cluster, name, lasting)
	must.OK(t, err)
	if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("TryLock beside it: %v", err)
	}
	got := later(t, c, name)
	queued(t, c, name, 1)
	must.OK(t, h.unlock())
	must.OK(t, granted(t, "Lock after its unlock", got).Unlock(t.Context()))
}

func wakesPeer(t *testing.T, cluster *etcdtest.Cluster, p peer, name string) {
	c := locks(t, cluster)
	l, err := c.Mutex(name).Lock(t.Context())
	must.OK(t, err)
	type taken struct {
		held
		err error
	}
	got, ctx := make(chan taken, 1), bounded(t)
	go func() {
		h, err := p.lock(ctx, t, cluster, name, lasting)
		got <- taken{h, err}
	}()
	queued(t, c, name, 1)
	select {
	case <-got:
		t.Error("it took the lock beside a Go holder")
	default:
	}
	token := l.Token()
	must.OK(t, l.Err())
	must.OK(t, l.Unlock(t.Context()))
	h := within(t, "its lock after our unlock", got)
	must.OK(t, h.err)
	must.OK(t, h.unlock())
	l, err = c.Mutex(name).Lock(t.Context())
	must.OK(t, err)
	if l.Token() <= token {
		t.Errorf("the token is %v, and was %v before", l.Token(), token)
	}
	must.OK(t, l.Unlock(t.Context()))
}

func killedPeer(t *testing.T, cluster *etcdtest.Cluster, p peer, name string) {
	c := locks(t, cluster)
	h, err := p.lock(bounded(t), t, cluster, name, brief)
	must.OK(t, err)
	h.kill()
	must.OK(t, granted(t, "Lock after its lease has ended", later(t, c, name)).Unlock(t.Context()))
}

func pausedPeer(t *testing.T, cluster *etcdtest.Cluster, p peer, name string) {
	c := locks(t, cluster)
	h, err := p.lock(bounded(t), t, cluster, name, brief)
	must.OK(t, err)
	if h.pause == nil {
		t.Skip("it is not a process")
	}
	resume := h.pause()
	l := granted(t, "Lock after its lease has ended", later(t, c, name))
	resume()
	st, err := c.Inspect(t.Context(), name)
	must.OK(t, err)
	if len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
		t.Errorf("after it went on the holders are %+v", st.Holders)
	}
	must.OK(t, l.Unlock(t.Context()))
}

// TestDeadGoProcessIsSkipped: its lease ends, and the other is woken.
func TestDeadGoProcessIsSkipped(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store, err := concurrencystore.New(cluster.Connect(t), &concurrencystore.Options{Prefix: prefix})
	must.OK(t, err)
	ses, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("a"), ID: driver.NewSessionID(), TTL: 2 * time.Second})
	must.OK(t, err)
	_, err = ses.Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "a", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	must.OK(t, err)
	m := concurrency.NewMutex(session(t, cluster), prefix+"a")
	must.OK(t, m.Lock(bounded(t)))
	if _, err := ses.KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the renewal returned %v", err)
	}
}

// TestDeletedKeyIsReported: another program deletes the key of a Go holder.
func TestDeletedKeyIsReported(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	l, err := locksFor(t, cluster, 4*time.Second).Mutex("a").Lock(t.Context())
	must.OK(t, err)
	_, err = cluster.Connect(t).Delete(t.Context(), prefix+"a/", clientv3.WithPrefix())
	must.OK(t, err)
	within(t, "the end of the lease", l.Context().Done())
	if !errors.Is(l.Err(), fencelock.LossForceUnlock) {
		t.Errorf("the lease ended with %v", l.Err())
	}
}

// TestServerRestartKeepsTheLock: the lock and its queue are there afterwards, on both sides.
func TestServerRestartKeepsTheLock(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	c := locks(t, cluster)
	l, err := c.Mutex("a").Lock(t.Context())
	must.OK(t, err)
	got := make(chan error, 1)
	m := concurrency.NewMutex(session(t, cluster), prefix+"a")
	go func() { got <- m.Lock(t.Context()) }()
	queued(t, c, "a", 1)
	cluster.Kill()
	must.OK(t, cluster.Start())
	must.OK(t, servers.Await("the server answers", func() bool { _, err := c.Inspect(t.Context(), "a"); return err == nil }))
	must.OK(t, l.Err())
	must.OK(t, l.Unlock(t.Context()))
	if err := within(t, "its lock after the restart", got); err != nil && !errors.Is(err, concurrency.ErrSessionExpired) {
		t.Error(err) // its own session may have ended
	}
}

// TestKeysAreTheirs compares what we write with what package concurrency writes.
func TestKeysAreTheirs(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	client := cluster.Connect(t)
	l, err := locks(t, cluster).Mutex("a").Lock(t.Context())
	must.OK(t, err)
	s := session(t, cluster)
	m := concurrency.NewMutex(s, prefix+"b")
	must.OK(t, m.Lock(t.Context()))
	for _, name := range []string{"a", "b"} {
		resp, err := client.Get(t.Context(), prefix+name+"/", clientv3.WithPrefix())
		must.OK(t, err)
		if len(resp.Kvs) != 1 {
			t.Fatalf("lock %s has %d keys", name, len(resp.Kvs))
		}
		kv := resp.Kvs[0]
		if want := fmt.Sprintf("%s%s/%x", prefix, name, kv.Lease); string(kv.Key) != want {
			t.Errorf("lock %s has the key %s, want %s", name, kv.Key, want)
		}
		if name == "a" && int64(l.Token()) != kv.CreateRevision*16384 {
			t.Errorf("the token is %v, and the key was created at %d", l.Token(), kv.CreateRevision)
		}
	}
}

// TestNameThatContinuesAnotherIsAnother: a claim does not wait for the locks below it.
func TestNameThatContinuesAnotherIsAnother(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	c := locks(t, cluster)
	below, err := c.Mutex("jobs/42").Lock(t.Context())
	must.OK(t, err)
	l, err := c.Mutex("jobs").TryLock(t.Context())
	must.OK(t, err)
	if _, err := locks(t, cluster).Mutex("jobs").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("a second TryLock: %v", err)
	}
	must.OK(t, l.Unlock(t.Context()))
	must.OK(t, below.Unlock(t.Context()))
}

// TestOpenByURL opens the store as the command line does.
func TestOpenByURL(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store, err := fencelock.OpenStore(t.Context(), "etcd-concurrency://"+cluster.Members[0].Addr+"?prefix="+prefix+"&max_ttl=30s&fenced_peers=true")
	must.OK(t, err)
	defer store.Close()
	c, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	must.OK(t, err)
	defer c.Close(context.Background())
	l, err := c.Mutex("a").Lock(t.Context())
	must.OK(t, err)
	resp, err := cluster.Connect(t).Get(t.Context(), prefix+"a/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	must.OK(t, err)
	if resp.Count != 1 {
		t.Errorf("%d keys under %sa/", resp.Count, prefix)
	}
	must.OK(t, l.Unlock(t.Context()))
	if _, err := concurrencystore.Open(t.Context(), "etcd://localhost", nil); err == nil {
		t.Error("a URL of etcdstore was accepted")
	}
}

// TestExamples runs the example of the package on a server.
func TestExamples(t *testing.T) {
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	servers.Example(t, Example, "ETCD_ENDPOINT", cluster.Members[0].Addr, "holding a\n")
}
