// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// patience is for what must happen, however slow the machine is.
const patience = time.Minute

// open returns a store.
func open(t testing.TB, addrs []string, opts curatorstore.Options) *curatorstore.Store {
	t.Helper()
	opts.TickTime, opts.MaxTTL = servers.TickTime, 50*time.Second
	store, err := curatorstore.New(addrs, &opts)
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// client returns a Go process.
func client(t testing.TB, addrs []string, opts curatorstore.Options, ttl time.Duration) *fencelock.Client {
	t.Helper()
	locks, err := fencelock.New(open(t, addrs, opts), &fencelock.Options{TTL: ttl, StoreTimeout: patience})
	must.OK(t, err)
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

func lock(t testing.TB, locks *fencelock.Client, name string) *fencelock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := locks.Mutex(name).Lock(ctx)
	must.OK(t, err)
	return l
}

// locked is what a Lock in the background came to. Its goroutine does not fail the test: t.Fatal would end the goroutine alone, and
// the test would wait for it.
type locked struct {
	lease *fencelock.Lease
	err   error
}

// locking is lock in the background.
func locking(t testing.TB, locks *fencelock.Client, name string) <-chan locked {
	got := make(chan locked, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := locks.Mutex(name).Lock(ctx)
		got <- locked{l, err}
	}()
	return got
}

// granted waits for a lock that is taken in the background.
func granted(t testing.TB, got <-chan locked) *fencelock.Lease {
	t.Helper()
	l := <-got
	must.OK(t, l.err)
	return l.lease
}

func TestBadOptionsAreErrors(t *testing.T) {
	for want, o := range map[string]curatorstore.Options{
		"Options.Root is":     {Root: "locks"},
		"at its beginning":    {Root: "/locks/"},
		"Options.Recipe is 9": {Recipe: 9},
		"Options.Sessions is": {Sessions: "x"},
		"Options.TickTime":    {TickTime: 2},
	} {
		if _, err := curatorstore.New([]string{"a:1"}, &o); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "curatorstore: ") {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	for url, want := range map[string]string{
		"zk://a":                     "begin with curator://",
		"curator://a?recipe=x":       "mutex, readwrite or latch",
		"curator://a?revoke=perhaps": "true or false",
		"curator://a?ttl=1s":         "unknown parameter",
	} {
		if _, err := curatorstore.Open(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", url, err, want)
		}
	}
}

// TestCorrectnessNeedsFencedPeers: a service without tokens cannot be fenced, so the store is for
// efficiency unless it is stated that all services have them.
func TestCorrectnessNeedsFencedPeers(t *testing.T) {
	for fenced, want := range map[bool]string{false: "FencedPeers", true: ""} {
		store := open(t, []string{"127.0.0.1:1"}, curatorstore.Options{FencedPeers: fenced})
		locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || want == "" && err != nil {
			t.Errorf("fenced %t: got %v, want %q", fenced, err, want)
		}
		if err == nil {
			must.OK(t, locks.Close(t.Context()))
		}
	}
}

var nameOfAClaim = regexp.MustCompile(`^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+-lock-0000000000$`)

// TestTreeOfALock: what is in the tree is what the other programs expect, and data that an application
// keeps above a lock stays.
func TestTreeOfALock(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	_, err := o.Create("/app", []byte("config"), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	must.OK(t, err)
	locks := client(t, e.Addrs(), curatorstore.Options{Root: "/app/locks"}, 20*time.Second)
	l := lock(t, locks, "orders/42")
	names := o.children("/app/locks/orders/42")
	if len(names) != 1 || !nameOfAClaim.MatchString(names[0]) {
		t.Fatalf("the children of the lock are %v", names)
	}
	_, stat, err := o.Get("/app/locks/orders/42/" + names[0])
	must.OK(t, err)
	if stat.EphemeralOwner == 0 || stat.Czxid*512 != int64(l.Token()) {
		t.Errorf("czxid %d, owner %d; the token is %v", stat.Czxid, stat.EphemeralOwner, l.Token())
	}
	for path, want := range map[string]string{"/app": "config", "/app/locks": "", "/app/locks/orders/42": ""} {
		if data, stat, err := o.Get(path); err != nil || string(data) != want || stat.Version != 0 {
			t.Errorf("%s has %q in version %d, %v; want %q as it was created", path, data, stat.Version, err, want)
		}
	}
	must.OK(t, l.Unlock(t.Context()))
	if names := o.children("/app/locks/orders/42"); len(names) > 0 {
		t.Errorf("after the unlock there are %v", names)
	}
}

// TestOtherHolderExcludes: a claim of another program excludes, its end wakes, tokens rise over both,
// and Inspect shows it.
func TestOtherHolderExcludes(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	locks := client(t, e.Addrs(), curatorstore.Options{}, 20*time.Second)
	node := o.claim("/orders/42", "lock-", []byte("10.1.2.3"))
	if _, err := locks.Mutex("orders/42").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) || !strings.Contains(err.Error(), "10.1.2.3") {
		t.Errorf("TryLock beside another program: %v", err)
	}
	if names := o.children("/orders/42"); len(names) != 1 {
		t.Errorf("TryLock left %v", names)
	}
	st, err := locks.Inspect(t.Context(), "orders/42")
	if err != nil || len(st.Holders) != 1 || st.Holders[0].Record.Owner != "10.1.2.3" {
		t.Errorf("Inspect shows %+v, %v", st, err)
	}
	_, stat, err := o.Get(node)
	must.OK(t, err)
	got := locking(t, locks, "orders/42")
	must.OK(t, servers.Await("the Go claim is queued", func() bool { return len(o.children("/orders/42")) == 2 }))
	behind := o.claim("/orders/42", "lock-", nil)
	must.OK(t, o.Delete(node, -1))
	l := granted(t, got)
	_, after, err := o.Get(behind)
	must.OK(t, err)
	if int64(l.Token()) <= stat.Czxid*512 || int64(l.Token()) >= after.Czxid*512 {
		t.Errorf("token %v between czxids %d and %d", l.Token(), stat.Czxid, after.Czxid)
	}
	must.OK(t, l.Unlock(t.Context()))
}

// TestDeletedNodeIsReported: another program deletes the node of a holder, who is notified with the
// next heartbeat, or by its unlock.
func TestDeletedNodeIsReported(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	locks := client(t, e.Addrs(), curatorstore.Options{}, 5*time.Second)
	l := lock(t, locks, "deleted")
	must.OK(t, o.Delete(o.only("/deleted"), -1))
	select {
	case <-l.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder was not notified")
	}
	if err := context.Cause(l.Context()); !errors.Is(err, fencelock.LossForceUnlock) {
		t.Errorf("the lease ended with %v, want LossForceUnlock", err)
	}
	slow := client(t, e.Addrs(), curatorstore.Options{}, 50*time.Second)
	l = lock(t, slow, "deleted")
	must.OK(t, o.Delete(o.only("/deleted"), -1))
	if err := l.Unlock(t.Context()); !errors.Is(err, fencelock.LossForceUnlock) {
		t.Errorf("Unlock returned %v, want LossForceUnlock", err)
	}
	l = lock(t, slow, "deleted")
	must.OK(t, l.Unlock(t.Context()))
}

// TestRevocationIsContended: __REVOKE__ on the node of a holder closes Contended, before or after it was
// asked for.
func TestRevocationIsContended(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	locks := client(t, e.Addrs(), curatorstore.Options{}, 20*time.Second)
	for _, early := range []bool{false, true} {
		l := lock(t, locks, "revoked")
		revoke := func() {
			_, err := o.Set(o.only("/revoked"), []byte("__REVOKE__"), -1)
			must.OK(t, err)
		}
		if early {
			revoke()
		}
		wanted := l.Contended()
		if !early {
			revoke()
		}
		select {
		case <-wanted:
		case <-time.After(patience):
			t.Fatalf("early %t: not wanted", early)
		}
		must.OK(t, l.Err())
		must.OK(t, l.Unlock(t.Context()))
	}
}

// TestWaiterRevokes: with Revoke a waiter asks a holder of another program, if that is revocable, and
// without it writes nothing.
func TestWaiterRevokes(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	for _, tt := range []struct {
		name   string
		revoke bool
		data   []byte
		want   string
	}{
		{"asked", true, []byte{}, "__REVOKE__"}, {"not-revocable", true, []byte("10.1.2.3"), "10.1.2.3"}, {"not-asked", false, []byte{}, ""},
	} {
		locks := client(t, e.Addrs(), curatorstore.Options{Revoke: tt.revoke}, 20*time.Second)
		node := o.claim("/"+tt.name, "lock-", tt.data)
		got := locking(t, locks, tt.name)
		must.OK(t, servers.Await("the Go claim waits", func() bool {
			st, err := locks.Inspect(t.Context(), tt.name)
			return err == nil && st.Waiting == 1
		}))
		read := func() string {
			data, _, err := o.Get(node)
			must.OK(t, err)
			return string(data)
		}
		if tt.want == "__REVOKE__" {
			must.OK(t, servers.Await("the holder is asked", func() bool { return read() == tt.want }))
		} else if data := read(); data != tt.want {
			t.Errorf("%s: the holder has %q", tt.name, data)
		}
		must.OK(t, o.Delete(node, -1))
		must.OK(t, granted(t, got).Unlock(t.Context()))
	}
}

// TestUnreadableQueueIsRefused: a child that fits no claim is an error that names it, and no claim of
// ours stays before those of others.
func TestUnreadableQueueIsRefused(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	locks := client(t, e.Addrs(), curatorstore.Options{}, 20*time.Second)
	for name, child := range map[string]string{"a": "0abc", "b": "_c_f290140d-9856-42ad-b9bf-348ffc086062-__WRIT__0000000001", "c": "_c_f290140d-9856-42ad-b9bf-348ffc086062-lock-2147483000"} {
		o.claim("/"+name, "other-", nil)
		_, err := o.Create("/"+name+"/"+child, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		must.OK(t, err)
		before := len(o.children("/" + name))
		ctx, cancel := context.WithTimeout(t.Context(), patience) // a claim that is queued would wait
		if _, err := locks.Mutex(name).Lock(ctx); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), child) {
			t.Fatalf("%s: Lock returned %v", child, err)
		}
		cancel()
		must.OK(t, servers.Await("the claim is withdrawn", func() bool { return len(o.children("/"+name)) == before }))
	}
	for _, name := range []string{"/a", "a/", "a//b", "a/../b", "fencelock", "fencelock/s"} {
		if _, err := locks.Mutex(name).TryLock(t.Context()); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("%q: TryLock returned %v", name, err)
		}
	}
}

// TestUnsharedKinds: what the recipe cannot do is refused.
func TestUnsharedKinds(t *testing.T) {
	t.Parallel()
	e := shared(t)
	mutexes := client(t, e.Addrs(), curatorstore.Options{}, 20*time.Second)
	pairs := client(t, e.Addrs(), curatorstore.Options{Recipe: curatorstore.ReadWrite}, 20*time.Second)
	for what, do := range map[string]func() error{
		"readers of a mutex":   func() error { _, err := mutexes.RWMutex("x").RLock(t.Context()); return err },
		"semaphore":            func() error { _, err := pairs.Semaphore("x", 2).Acquire(t.Context(), 1); return err },
		"re-entry by an owner": func() error { _, err := mutexes.Mutex("x", fencelock.ReentrantAs("me")).Lock(t.Context()); return err },
		"once": func() error {
			_, err := mutexes.Once("x", time.Hour).Do(t.Context(), "1", func(context.Context, *fencelock.Lease) error { return nil })
			return err
		},
	} {
		if err := do(); !errors.Is(err, fencelock.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", what, err)
		}
	}
}

// TestListWalksTheTree: locks are found wherever they are, below each other, too, and only those of the
// recipe.
func TestListWalksTheTree(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	store := open(t, e.Addrs(), curatorstore.Options{Root: "/locks"})
	locks, err := fencelock.New(store, &fencelock.Options{TTL: 20 * time.Second})
	must.OK(t, err)
	defer locks.Close(context.Background())
	want := []string{"a", "a/b", "a/b/c", "a-b", "d/e/f"}
	for _, name := range want[:4] {
		lock(t, locks, name)
	}
	o.claim("/locks/d/e/f", "lock-", nil)
	o.claim("/locks/g", "__WRIT__", nil)
	var got []string
	for cursor := ""; ; {
		page, err := store.List(t.Context(), driver.ListQuery{Cursor: cursor, Max: 2})
		must.OK(t, err)
		for _, st := range page.Locks {
			got = append(got, st.Name)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}
