// SPDX-License-Identifier: Apache-2.0

// Package etcdtest starts real etcd servers for tests, on free loopback ports, and
// stops them.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock/internal/servers"
)

// Install is how to get a server.
const Install = "apt-get install etcd-server etcd-client"

// ready bounds how long servers may take to answer.
const ready = 40 * time.Second

// Cluster is a number of etcd servers that belong together.
type Cluster struct {
	Members []*Member
	dir     string
	token   string
	args    []string
}

// Member is one server.
type Member struct {
	Name, Addr string
	peer, dir  string
	cmd        *exec.Cmd
}

// Binary returns the server to start: that of the variable ETCD, or the one on the
// PATH.
func Binary() (string, error) {
	if path := os.Getenv("ETCD"); path != "" {
		return path, nil
	}
	return exec.LookPath("etcd")
}

// Start starts a cluster and stops it when the test ends. args are further options
// of the servers.
func Start(t testing.TB, members int, args ...string) *Cluster {
	t.Helper()
	if _, err := Binary(); err != nil {
		t.Skip("etcd is not installed; on Debian: " + Install)
	}
	c, err := Launch(t.TempDir(), members, args...)
	if c != nil {
		t.Cleanup(c.Kill)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Quick are options of a server whose leases may be as short as a second. They are
// for one that stands alone: in a cluster they would make elections.
var Quick = []string{"--heartbeat-interval", "20", "--election-timeout", "200"}

// Launch starts a cluster whose files are in dir. Even with an error a cluster that
// is not nil has to be killed.
func Launch(dir string, members int, args ...string) (*Cluster, error) {
	c := &Cluster{dir: dir, token: "first", args: args}
	for i := range members {
		ports, err := freePorts(2)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprint("m", i)
		c.Members = append(c.Members, &Member{Name: name, Addr: ports[0], peer: ports[1], dir: filepath.Join(dir, name)})
	}
	for _, m := range c.Members {
		if err := c.StartMember(m); err != nil {
			return c, err
		}
	}
	return c, c.Ready()
}

// StartMember starts a server that does not run, with the data it has.
func (c *Cluster) StartMember(m *Member) error {
	binary, err := Binary()
	if err != nil {
		return err
	}
	args := append([]string{
		"--name", m.Name, "--data-dir", m.dir,
		"--listen-client-urls", "http://" + m.Addr, "--advertise-client-urls", "http://" + m.Addr,
		"--listen-peer-urls", "http://" + m.peer, "--initial-advertise-peer-urls", "http://" + m.peer,
		"--initial-cluster", c.initial(), "--initial-cluster-state", "new", "--initial-cluster-token", c.token,
		"--logger", "zap", "--log-level", "error",
	}, c.args...)
	log, err := os.OpenFile(m.dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	m.cmd = exec.Command(binary, args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	// A server must not outlive a test binary that is killed.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return m.cmd.Start()
}

func (c *Cluster) initial() string {
	var list []string
	for _, m := range c.Members {
		list = append(list, m.Name+"=http://"+m.peer)
	}
	return strings.Join(list, ",")
}

// Ready waits until the cluster answers.
func (c *Cluster) Ready() error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	for ctx.Err() == nil {
		if _, err = client.Get(ctx, "ready"); err == nil {
			return nil
		}
	}
	log, _ := os.ReadFile(c.Members[0].dir + ".log") // for people
	return fmt.Errorf("etcd at %v does not answer: %w\n%s", c.Addrs(), err, log)
}

// Addrs returns the addresses of the members.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, m := range c.Members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

// Client returns a client for all members; close it.
func (c *Cluster) Client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: c.Addrs(), Logger: zap.NewNop(),
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 2 * time.Second})
}

// Connect returns a client that is closed with the test.
func (c *Cluster) Connect(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Kill ends all servers at once, as a crash does.
func (c *Cluster) Kill() {
	for _, m := range c.Members {
		m.Kill()
	}
}

// Kill ends a server at once.
func (m *Member) Kill() {
	if m.cmd == nil || m.cmd.Process == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.cmd = nil
}

// Stop suspends a server until resume is called. A signal to a process with many
// threads stops them one after the other, and the last may answer meanwhile.
func (m *Member) Stop() (resume func()) {
	_ = m.cmd.Process.Signal(syscall.SIGSTOP)
	servers.AwaitStopped(m.cmd.Process.Pid)
	return func() { _ = m.cmd.Process.Signal(syscall.SIGCONT) }
}

// Stop suspends all servers.
func (c *Cluster) Stop() (resume func()) {
	var all []func()
	for _, m := range c.Members {
		all = append(all, m.Stop())
	}
	return func() {
		for _, f := range all {
			f()
		}
	}
}

// Leader returns the member that leads.
func (c *Cluster) Leader(ctx context.Context) (*Member, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for _, m := range c.Members {
		st, err := client.Status(ctx, m.Addr)
		if err == nil && st.Leader == st.Header.MemberId {
			return m, nil
		}
	}
	return nil, errors.New("etcdtest: no member says that it leads")
}

// Restore makes the cluster, of one member, go on from a snapshot of its own under
// another cluster id, as an operator does after a loss.
func (c *Cluster) Restore(snapshot string) error {
	m := c.Members[0]
	m.Kill()
	if err := os.RemoveAll(m.dir); err != nil {
		return err
	}
	c.token += "+"
	cmd := exec.Command("etcdctl", "snapshot", "restore", snapshot, "--name", m.Name, "--data-dir", m.dir,
		"--initial-cluster", c.initial(), "--initial-cluster-token", c.token, "--initial-advertise-peer-urls", "http://"+m.peer)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("etcdctl snapshot restore: %w\n%s", err, out)
	}
	if err := c.StartMember(m); err != nil {
		return err
	}
	return c.Ready()
}

// Snapshot writes a snapshot and returns its file.
func (c *Cluster) Snapshot() (string, error) {
	f, err := os.CreateTemp(c.dir, "snapshot")
	if err != nil {
		return "", err
	}
	defer f.Close()
	cmd := exec.Command("etcdctl", "--endpoints", c.Members[0].Addr, "snapshot", "save", f.Name())
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("etcdctl snapshot save: %w\n%s", err, out)
	}
	return f.Name(), nil
}

// freePorts returns loopback addresses that nobody listens at.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
