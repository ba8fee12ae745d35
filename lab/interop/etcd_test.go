// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// etcdTTL is the lease of a holder: what a killed one costs the other side.
	etcdTTL = 10 * time.Second
	// etcdLong is the longest TTL here. A waiter polls when the lease of the holder ends.
	etcdLong = 60 * time.Second
)

// etcdLibrary is a library, or a command, that shares the locks.
type etcdLibrary struct {
	name    string
	version func() string
	kind    string
	// command starts a process that is driven by lines; nil for etcdctl.
	command func() ([]string, error)
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
	{"concurrency.Mutex", always("3.7.3"), "mutex", concurrencyCommand},
	{"concurrency.Election", always("3.7.3"), "election", concurrencyCommand},
	{"etcdctl lock", etcdctlVersion, "lock", nil},
	{"jetcd Lock", always(jetcdVersion), "lock", func() ([]string, error) { return command("jetcd", jetcdVersion) }},
}

// etcdVersions are the columns.
func etcdVersions() (all []string) {
	for _, l := range etcdLibraries {
		all = append(all, l.title())
	}
	return all
}

// concurrencyCommand is this program as a process with package concurrency.
func concurrencyCommand() ([]string, error) {
	program, err := os.Executable()
	return []string{program, etcdPeerWord}, err
}

// etcd is a server with locks of package concurrency.
type etcd struct {
	library etcdLibrary
	cluster *servers.EtcdCluster
	raw     *clientv3.Client // to see the keys, and to delete them
}

func newEtcd() (*servers.EtcdCluster, error) { return servers.Etcd(1) }

func etcdStage(t *testing.T, l etcdLibrary, cluster *servers.EtcdCluster) *stage {
	return newStage(t, l.title(), &etcd{l, cluster, connectEtcd(t, cluster)})
}

func connectEtcd(t testing.TB, cluster *servers.EtcdCluster) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Addrs(), Logger: zap.NewNop()})
	must.OK(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (*etcd) traits(string) traits {
	return traits{ttl: etcdTTL, long: etcdLong, soon: etcdTTL / 2, queues: true, waitsEnd: true}
}

func (e *etcd) apart(t *testing.T) format {
	cluster := servers.Test(t, newEtcd)
	return &etcd{e.library, cluster, connectEtcd(t, cluster)}
}

func (e *etcd) start(t testing.TB) *process {
	t.Helper()
	if e.library.command == nil {
		if _, err := exec.LookPath("etcdctl"); err != nil {
			t.Skip("etcdctl is not installed; on Debian: apt-get install etcd-client")
		}
		return nil
	}
	command, err := e.library.command()
	if err != nil {
		t.Skip(err)
	}
	return launch(t, command, e.cluster.Members[0].Addr, millis(etcdTTL))
}

// other returns a process: an actor of a shared one would leave its lease behind.
func (e *etcd) other(s *scene, kind string, _ bool) contender {
	s.Helper()
	if e.library.command == nil {
		return e.etcdctl(s)
	}
	return etcdActor{s.by(kind, true)}
}

// etcdActor is an actor whose wait ends by a request.
type etcdActor struct{ *actor }

func (a etcdActor) giveUp() { a.Must(a.who, "GIVEUP", a.kind, a.path) }

// etcdctl is etcdctl lock, which writes the key when it has it, and waits for a signal.
type etcdctl struct {
	*scene
	cmd *exec.Cmd
}

func (e *etcd) etcdctl(s *scene) contender {
	cmd := exec.Command("etcdctl", "--endpoints", e.cluster.Members[0].Addr, "lock", "--ttl", fmt.Sprint(etcdTTL.Seconds()), s.path())
	cmd.Env = append(cmd.Environ(), "ETCDCTL_API=3")
	return etcdctl{s, cmd}
}

func (c etcdctl) lock() <-chan answer {
	got := make(chan answer, 1)
	out, err := c.cmd.StdoutPipe()
	must.OK(c, err)
	must.OK(c, c.cmd.Start())
	c.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			got <- answer{Word: "ended", Value: err.Error()}
			return
		}
		got <- answer{Word: "ok", Value: strings.TrimSpace(line)}
	}()
	return got
}

func (c etcdctl) signal(sig os.Signal) { _ = c.cmd.Process.Signal(sig) }
func (c etcdctl) unlock() error        { c.signal(os.Interrupt); return nil }
func (c etcdctl) giveUp()              { c.signal(os.Interrupt) }
func (c etcdctl) Kill()                { c.signal(os.Kill) }

func (c etcdctl) Pause() (resume func()) {
	c.signal(syscall.SIGSTOP)
	return func() { c.signal(syscall.SIGCONT) }
}

func (*etcd) foreign(name string) string { return etcdPrefix + name }

func (e *etcd) store(s *scene) driver.Store {
	s.Helper()
	store, err := concurrencystore.New(connectEtcd(s, e.cluster), &concurrencystore.Options{Prefix: etcdPrefix})
	must.OK(s, err)
	s.Cleanup(func() { _ = store.Close() })
	return store
}

func (e *etcd) url(string) string {
	return "etcd-concurrency://" + e.cluster.Members[0].Addr + "?prefix=" + etcdPrefix
}

// keys returns the keys of the lock in the order of creation.
func (s *scene) keys() *clientv3.GetResponse {
	s.Helper()
	resp, err := s.format.(*etcd).raw.Get(s.Context(), s.path()+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	must.OK(s, err)
	return resp
}

func (*etcd) count(s *scene) int                        { s.Helper(); return len(s.keys().Kvs) }
func (*etcd) settled(s *scene, _ contender) func() bool { s.Helper(); return queueGrows(s) }

func (*etcd) fence(s *scene) driver.Token {
	s.Helper()
	return driver.Token(s.keys().Kvs[0].CreateRevision * 16384)
}

func (e *etcd) deleteFirst(s *scene) {
	s.Helper()
	_, err := e.raw.Delete(s.Context(), string(s.keys().Kvs[0].Key))
	must.OK(s, err)
}

// barred: there is no attempt that does not wait.
func (*etcd) barred(s *scene, c contender) (takes func()) {
	s.Helper()
	waiting := s.asking(c)
	select {
	case got := <-waiting:
		s.Fatalf("it took the lock beside a Go holder: %v", got)
	default:
	}
	return func() { s.Helper(); s.has(waiting) }
}

func (*etcd) gaveUp(s *scene, c contender) { s.Helper(); s.asking(c); c.giveUp() }
func (*etcd) held(s *scene, _ contender)   { s.Helper(); s.queued(1) }
func (*etcd) lost(*scene, contender)       {}
func (*etcd) free(s *scene)                { s.Helper(); s.queued(0) }
func (e *etcd) restart(s *scene)           { s.Helper(); e.cluster.Kill(); must.OK(s, e.cluster.Start()) }

const etcdTitle = "etcd package concurrency"

// etcdTable are the rows of the page.
var etcdTable = table{title: etcdTitle, cells: titled(slices.Concat(
	excluded, woken, holderKilled, waiterKilled, holderPaused, waiterPaused, waiterGivesUp, deleted("key deleted by hand"), brokenByOperator, inOrder, restarted,
	[]cell{{"same in the store", "both", "both", sameKeys}, {"leader seen", "Go", "Java", etcdLeaderSeen}}), "other", "fencelock")}

// TestEtcd plays all cells.
func TestEtcd(t *testing.T) {
	slow := []string{"holder killed", "waiter killed", "holder paused", "waiter paused", "waiter gives up", "server", "broken", "in order", "key deleted by hand"}
	cluster := servers.Test(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1, servers.QuickEtcd...) })
	for _, l := range etcdLibraries {
		if !*all && l.name != etcdLibraries[0].name {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			table := etcdTable
			table.kind = l.kind
			etcdStage(t, l, cluster).playAll(t, table, slow)
		})
	}
}

// sameKeys: the keys are those of package concurrency, and the token is the revision.
func sameKeys(s *scene) {
	other, l := s.other(), s.lock(s.client(etcdTTL))
	waiting := s.asking(other)
	for i, kv := range s.keys().Kvs {
		if want := fmt.Sprintf("%s/%x", s.path(), kv.Lease); string(kv.Key) != want || kv.Lease == 0 {
			s.Errorf("key %d is %s on lease %x, want %s", i, kv.Key, kv.Lease, want)
		}
	}
	if want := s.fence(s); l.Token() != want {
		s.Errorf("the token is %v, and by the creation of the key %v", l.Token(), want)
	}
	s.unlock(l)
	s.has(waiting)
	must.OK(s, other.unlock())
}

func etcdLeaderSeen(s *scene) {
	if s.kind != "election" {
		results.note(row{etcdTitle, "leader seen", "fencelock", "other"}, s.version, impossible)
		s.Skip("it is not an election")
	}
	other, l := s.by(s.kind, true), s.lock(s.client(etcdTTL))
	if got := other.Must(other.who, "LEADER", s.kind, s.path()).Value; !strings.Contains(got, `"owner"`) {
		s.Errorf("Leader shows %s, want the record of the Go holder", got)
	}
	s.unlock(l)
}
