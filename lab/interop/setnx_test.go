// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// other is a library whose lock is a string.
type other struct {
	name, version string
	// on returns what takes a lock of a server for so long, and returns what gives it back.
	on func(t *testing.T, client *redis.Client) try
}

type try func(ctx context.Context, name string, ttl time.Duration) (unlock func() error, err error)

var others = []other{
	{"redsync", redsyncVersion, func(_ *testing.T, client *redis.Client) try {
		return func(ctx context.Context, name string, ttl time.Duration) (func() error, error) {
			m := redsync.New(goredis.NewPool(client)).NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1))
			return func() error {
				if ok, err := m.UnlockContext(ctx); !ok || err != nil {
					return errors.Join(errors.New("not unlocked"), err)
				}
				return nil
			}, m.LockContext(ctx)
		}
	}},
	{"redislock", "0.9.4", func(_ *testing.T, client *redis.Client) try {
		return func(ctx context.Context, name string, ttl time.Duration) (func() error, error) {
			l, err := redislock.Obtain(ctx, client, name, ttl, nil)
			return func() error { return l.Release(ctx) }, err
		}
	}},
	{"redis-py", "6.4.0", func(t *testing.T, client *redis.Client) try {
		dir := installed(t, "redis-py-6.4.0", "bin/python", "python3 -m venv %[1]s && %[1]s/bin/pip install redis==6.4.0")
		return byProcess(launch(t, []string{filepath.Join(dir, "bin/python"), "redispy/peer.py"}, client.Options().Addr))
	}},
	{"node-redlock", "5.0.0-beta.2", func(t *testing.T, client *redis.Client) try {
		dir := installed(t, "redlock-5.0.0-beta.2", "node_modules/redlock", "mkdir -p %[1]s && npm install --prefix %[1]s redlock@5.0.0-beta.2 ioredis@5.7.0")
		return byProcess(launch(t, []string{"node", "redlockjs/peer.mjs"}, dir, client.Options().Addr))
	}},
}

// setNX are the rows of TestSetNX.
var setNX = []row{
	{"SET NX on one server", "excluded", "fencelock", "other"}, {"SET NX on one server", "excluded", "other", "fencelock"},
	{"SET NX on one server", "holder paused", "fencelock", "other"}, {"SET NX on one server", "holder killed", "fencelock", "other"},
	{"SET NX on one server", "lease ends", "other", "fencelock"},
}

// setNXVersions are the columns of TestSetNX.
func setNXVersions() (all []string) {
	for _, o := range others {
		all = append(all, o.name+" "+o.version)
	}
	return all
}

// installed returns the folder in the user's cache with a library. If it is not there, the test is
// skipped with the command that installs it.
func installed(t *testing.T, name, file, command string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	must.OK(t, err)
	dir := filepath.Join(cache, "fencelock-interop", name)
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		t.Skipf("%s is not installed; run: "+command, name, dir)
	}
	return dir
}

// byProcess takes locks in another process.
func byProcess(p *process) try {
	other := &peer{p, ""}
	return func(_ context.Context, name string, ttl time.Duration) (func() error, error) {
		unlock := func() error { return other.Do("a", "UNLOCK", "lock", name).Err() }
		return unlock, other.Do("a", "TRY", "lock", name, ttl.Milliseconds()).Err()
	}
}

// TestSetNX shares locks with libraries whose lock is a string.
func TestSetNX(t *testing.T) {
	t.Parallel()
	server := redisServer(t)
	for _, o := range others {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			t.Cleanup(func() { _ = client.Close() })
			take := o.on(t, client)
			store, err := setnxstore.New(client, nil)
			must.OK(t, err)
			locks, err := fencelock.New(store, &fencelock.Options{TTL: ttl})
			must.OK(t, err)
			t.Cleanup(func() { _ = locks.Close(context.Background()) })
			for i, do := range []func(t *testing.T){
				func(t *testing.T) { excludedByGo(t, o.name, take, client, locks) },
				func(t *testing.T) { excludedByOther(t, o.name, take, locks) },
				func(t *testing.T) { lostToOther(t, o.name, take, server.Addr) },
				func(t *testing.T) { leftToOther(t, o.name, take, server.Addr) },
				func(t *testing.T) { leaseEnds(t, o.name, take, locks) },
			} {
				r := setNX[i]
				t.Run(r.what+" by "+r.holder, func(t *testing.T) { results.noteTest(t, r, o.name+" "+o.version); do(t) })
			}
		})
	}
}

// excludedByGo: while Go renews, and after.
func excludedByGo(t *testing.T, library string, take try, client *redis.Client, locks *fencelock.Client) {
	l, err := locks.Mutex(library + "/a").Lock(t.Context())
	must.OK(t, err)
	last := ttl
	must.OK(t, servers.Await("Go renews", func() bool {
		if _, err := take(t.Context(), library+"/a", time.Minute); err == nil {
			t.Error("it took the lock beside a Go holder")
		}
		left, err := client.PTTL(t.Context(), library+"/a").Result()
		renewed := err == nil && left > last
		last = left
		return renewed
	}))
	must.OK(t, l.Err())
	must.OK(t, l.Unlock(t.Context()))
	unlock, err := take(t.Context(), library+"/a", time.Minute)
	must.OK(t, err)
	must.OK(t, unlock())
}

// excludedByOther: until it unlocks.
func excludedByOther(t *testing.T, library string, take try, locks *fencelock.Client) {
	unlock, err := take(t.Context(), library+"/b", long)
	must.OK(t, err)
	if _, err := locks.Mutex(library + "/b").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Fatalf("TryLock beside it: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := locks.Mutex(library + "/b").Lock(t.Context())
		if err == nil {
			err = l.Unlock(t.Context())
		}
		got <- err
	}()
	must.OK(t, unlock())
	must.OK(t, await(t, "Lock in Go after its unlock", got))
}

// leaseEnds: of a holder that does not renew, as a dead one.
func leaseEnds(t *testing.T, library string, take try, locks *fencelock.Client) {
	_, err := take(t.Context(), library+"/e", time.Second)
	must.OK(t, err)
	l, err := locks.Mutex(library + "/e").Lock(t.Context())
	must.OK(t, err)
	must.OK(t, l.Unlock(t.Context()))
}

// lostToOther: a Go process that was paused neither keeps nor frees the lock of the other.
func lostToOther(t *testing.T, library string, take try, addr string) {
	name, g := library+"/c", startGo(t, "setnx://"+addr, shortTTL)
	g.Must("a", "LOCK", "lock", name)
	resume := g.Pause()
	unlock := taken(t, take, name)
	resume()
	lostInAPause(t, g, "a", "lock", name)
	must.OK(t, unlock())
}

// leftToOther: the lock of a Go process that was killed is free after its lease.
func leftToOther(t *testing.T, library string, take try, addr string) {
	name, g := library+"/d", startGo(t, "setnx://"+addr, shortTTL)
	g.Must("a", "LOCK", "lock", name)
	g.Kill()
	must.OK(t, taken(t, take, name)())
}

// shortTTL is the lease of a Go process that is killed or paused. It renews until then.
const shortTTL = 3 * time.Second

// taken waits until the other library has the lock.
func taken(t *testing.T, take try, name string) (unlock func() error) {
	t.Helper()
	must.OK(t, servers.Await("the other has the lock", func() (ok bool) {
		var err error
		unlock, err = take(t.Context(), name, long)
		return err == nil
	}))
	return unlock
}
