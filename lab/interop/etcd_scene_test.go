// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// etcdTTL is the lease of a holder: what a killed one costs the other side.
	etcdTTL = 10 * time.Second
	// etcdLong is the longest TTL here. What comes within half of it came by a watch.
	etcdLong = 60 * time.Second
)

// contender is one process of another library for one lock.
type contender struct {
	// lock takes the lock; the answer comes when it has it.
	lock   func() <-chan answer
	unlock func() error
	// giveUp ends a wait; nil if the library has nothing for that.
	giveUp func()
	kill   func()
	pause  func() (resume func())
	// leader reads what an election shows of its leader; nil for locks.
	leader func() string
}

// etcdLibrary is a library, or a command, that shares the locks.
type etcdLibrary struct {
	name    string
	version func() string
	start   func(s *etcdScene) *contender
}

// title is the column of the library.
func (l etcdLibrary) title() string { return l.name + " " + l.version() }

// always is a version that the build fixes.
func always(version string) func() string { return func() string { return version } }

// etcdctlVersion is that of the command that is installed.
var etcdctlVersion = sync.OnceValue(func() string {
	out, _ := exec.Command("etcdctl", "version").Output()
	return versionIn(string(out))
})

// versionIn reads what etcdctl version prints.
func versionIn(text string) string {
	for line := range strings.Lines(text) {
		if version, found := strings.CutPrefix(line, "etcdctl version:"); found {
			return strings.TrimSpace(version)
		}
	}
	return "of unknown version"
}

// TestVersionOfEtcdctl: the column of the matrix has the version that was run.
func TestVersionOfEtcdctl(t *testing.T) {
	for text, want := range map[string]string{"etcdctl version: 3.4.23\nAPI version: 3.4\n": "3.4.23", "etcdctl version: 3.6.1": "3.6.1", "": "of unknown version"} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// jetcdVersion is the version of jetcd.
const jetcdVersion = "0.8.5"

var etcdLibraries = []etcdLibrary{
	{"concurrency.Mutex", always("3.7.3"), func(s *etcdScene) *contender { return s.byLines("mutex", s.self()) }},
	{"concurrency.Election", always("3.7.3"), func(s *etcdScene) *contender { return s.byLines("election", s.self()) }},
	{"etcdctl lock", etcdctlVersion, (*etcdScene).etcdctl},
	{"jetcd Lock", always(jetcdVersion), func(s *etcdScene) *contender {
		command, err := command("jetcd", jetcdVersion)
		if err != nil {
			s.Skip(err)
		}
		return s.byLines("lock", command)
	}},
}

// etcdScene is a server with processes that share a lock.
type etcdScene struct {
	*testing.T
	library etcdLibrary
	cluster *servers.EtcdCluster
	name    string
	raw     *clientv3.Client // to see the keys, and to delete them
}

// playEtcd runs a scene with a lock that no other scene has.
func playEtcd(t *testing.T, l etcdLibrary, cluster *servers.EtcdCluster, do func(*etcdScene)) {
	s := &etcdScene{T: t, library: l, cluster: cluster, name: fmt.Sprint("orders/", names.Add(1))}
	s.raw = s.connect()
	do(s)
}

// apart returns the scene on a separate server, which can be restarted.
func (s *etcdScene) apart() *etcdScene {
	s.Helper()
	apart := *s
	apart.cluster = servers.Test(s.T, func() (*servers.EtcdCluster, error) { return servers.Etcd(1) })
	apart.raw = apart.connect()
	return &apart
}

func (s *etcdScene) connect() *clientv3.Client {
	s.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: s.cluster.Addrs(), Logger: zap.NewNop()})
	must.OK(s, err)
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// self is the command of this program as a process with package concurrency.
func (s *etcdScene) self() []string {
	s.Helper()
	program, err := os.Executable()
	must.OK(s, err)
	return []string{program, etcdPeerWord}
}

// other starts a process of the library.
func (s *etcdScene) other() *contender { s.Helper(); return s.library.start(s) }

// byLines starts a process that is driven by lines.
func (s *etcdScene) byLines(kind string, command []string) *contender {
	s.Helper()
	p := &peer{launch(s, command, s.cluster.Members[0].Addr, millis(etcdTTL)), ""}
	c := &contender{
		lock:   func() <-chan answer { return p.Ask("a", "LOCK", kind, etcdPrefix+s.name) },
		unlock: func() error { return p.Do("a", "UNLOCK", kind, etcdPrefix+s.name).Err() },
		giveUp: func() { p.Must("a", "GIVEUP", kind, etcdPrefix+s.name) },
		kill:   p.Kill, pause: p.Pause,
	}
	if kind == "election" {
		c.leader = func() string { return p.Must("a", "LEADER", kind, etcdPrefix+s.name).Value }
	}
	return c
}

// etcdctl runs etcdctl lock, which writes the key when it has it, and waits for a signal.
func (s *etcdScene) etcdctl() *contender {
	s.Helper()
	program, err := exec.LookPath("etcdctl")
	if err != nil {
		s.Skip("etcdctl is not installed; on Debian: apt-get install etcd-client")
	}
	cmd := exec.Command(program, "--endpoints", s.cluster.Members[0].Addr, "lock", "--ttl", fmt.Sprint(etcdTTL.Seconds()), etcdPrefix+s.name)
	cmd.Env = append(cmd.Environ(), "ETCDCTL_API=3")
	signal := func(sig os.Signal) { _ = cmd.Process.Signal(sig) }
	return &contender{
		lock: func() <-chan answer {
			c := make(chan answer, 1)
			out, err := cmd.StdoutPipe()
			must.OK(s, err)
			must.OK(s, cmd.Start())
			s.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			go func() {
				line, err := bufio.NewReader(out).ReadString('\n')
				if err != nil {
					c <- answer{Word: "ended", Value: err.Error()}
					return
				}
				c <- answer{Word: "ok", Value: strings.TrimSpace(line)}
			}()
			return c
		},
		unlock: func() error { signal(os.Interrupt); return nil },
		giveUp: func() { signal(os.Interrupt) },
		kill:   func() { signal(os.Kill) },
		pause:  func() func() { signal(syscall.SIGSTOP); return func() { signal(syscall.SIGCONT) } },
	}
}

// store returns a store of a Go process.
func (s *etcdScene) store() *concurrencystore.Store {
	s.Helper()
	store, err := concurrencystore.New(s.connect(), &concurrencystore.Options{Prefix: etcdPrefix})
	must.OK(s, err)
	s.Cleanup(func() { _ = store.Close() })
	return store
}

// client returns a Go process with fencelock.
func (s *etcdScene) client(ttl time.Duration) *fencelock.Client {
	s.Helper()
	locks, err := fencelock.New(s.store(), &fencelock.Options{TTL: ttl})
	must.OK(s, err)
	s.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

// mortalGo starts a Go process with fencelock that can be killed or paused.
func (s *etcdScene) mortalGo() *peer {
	s.Helper()
	return startGo(s, "etcd-concurrency://"+s.cluster.Members[0].Addr+"?prefix="+etcdPrefix, etcdTTL)
}

// lock takes the lock in Go.
func (s *etcdScene) lock(locks *fencelock.Client) *fencelock.Lease {
	s.Helper()
	return s.granted(s.locking(locks)).lease
}

// locking takes the lock in Go, in the background.
func (s *etcdScene) locking(locks *fencelock.Client) <-chan result {
	return taking(s, locks.Mutex(s.name).Lock)
}

// granted waits for a lease.
func (s *etcdScene) granted(c <-chan result) result { s.Helper(); return granted(s, c) }

func (s *etcdScene) unlock(l *fencelock.Lease) { s.Helper(); must.OK(s, l.Unlock(s.Context())) }

// takes lets the other take the lock.
func (s *etcdScene) takes(c *contender) { s.Helper(); s.has(c.lock()) }

// has waits until the other has the lock.
func (s *etcdScene) has(c <-chan answer) {
	s.Helper()
	must.OK(s, await(s, "the lock of the other", c).Err())
}

// busy checks that Go cannot take the lock.
func (s *etcdScene) busy(locks *fencelock.Client) {
	s.Helper()
	if _, err := locks.Mutex(s.name).TryLock(s.Context()); !errors.Is(err, fencelock.ErrBusy) {
		s.Fatalf("TryLock beside another holder: %v", err)
	}
}

// keys returns the keys of the lock in the order of creation.
func (s *etcdScene) keys() *clientv3.GetResponse {
	s.Helper()
	resp, err := s.raw.Get(s.Context(), etcdPrefix+s.name+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	must.OK(s, err)
	return resp
}

// queued waits until n claims are there, the holder's included.
func (s *etcdScene) queued(n int) {
	s.Helper()
	must.OK(s, servers.Await(fmt.Sprint(n, " claims are there"), func() bool {
		resp, err := s.raw.Get(s.Context(), etcdPrefix+s.name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == int64(n)
	}))
}

// deleteFirst deletes the key of the holder by hand.
func (s *etcdScene) deleteFirst() {
	s.Helper()
	_, err := s.raw.Delete(s.Context(), string(s.keys().Kvs[0].Key))
	must.OK(s, err)
}
