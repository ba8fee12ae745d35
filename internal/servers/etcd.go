// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// EtcdCluster is a number of etcd servers that form a cluster.
type EtcdCluster struct {
	Members []*EtcdMember
	token   string
	binary  string
	args    []string
}

// EtcdMember is one of the servers.
type EtcdMember struct {
	*Server
	name   string
	listen string // its address for the other members
	seen   string // the address that they use
}

// QuickEtcd are arguments of a server whose leases may be as short as a second. They are
// for a cluster of one member: several would hold elections under load.
var QuickEtcd = []string{"--heartbeat-interval", "20", "--election-timeout", "200"}

// EtcdRenewals is a member's counter of lease renewals.
const EtcdRenewals = "etcd_debugging_lease_renewed_total"

// Etcd starts a cluster. args are further arguments of the command line of every member.
func Etcd(members int, args ...string) (*EtcdCluster, error) {
	return started(func() (*EtcdCluster, error) {
		return NewEtcd(members, func(_ int, addr string) (string, error) { return addr, nil }, args...)
	})
}

// NewEtcd prepares a cluster that does not run yet. front returns the address by which the
// others reach what member i listens at, as that of a proxy.
func NewEtcd(members int, front func(i int, addr string) (string, error), args ...string) (*EtcdCluster, error) {
	binary, err := etcd.find()
	if err != nil {
		return nil, err
	}
	c := &EtcdCluster{token: "first", binary: binary, args: args}
	for i := range members {
		if err := c.add(i, front); err != nil {
			c.Stop()
			return nil, err
		}
	}
	c.arm()
	return c, nil
}

func (c *EtcdCluster) add(i int, front func(i int, addr string) (string, error)) error {
	s, err := newServer("etcd", "")
	if err != nil {
		return err
	}
	m := &EtcdMember{Server: s, name: "m" + strconv.Itoa(i)}
	c.Members = append(c.Members, m)
	s.answers = m.healthy
	peer, err := FreePort()
	if err != nil {
		return err
	}
	m.listen = loopback(peer)
	m.seen, err = front(i, m.listen)
	return err
}

// arm sets the command lines of the members.
func (c *EtcdCluster) arm() {
	for _, m := range c.Members {
		m.args = append([]string{
			c.binary, "--name", m.name, "--data-dir", m.data(),
			"--listen-client-urls", "http://" + m.Addr, "--advertise-client-urls", "http://" + m.Addr,
			"--listen-peer-urls", "http://" + m.listen, "--initial-advertise-peer-urls", "http://" + m.seen,
			"--initial-cluster", c.initial(), "--initial-cluster-state", "new", "--initial-cluster-token", c.token,
			"--logger", "zap", "--log-level", "error",
		}, c.args...)
	}
}

func (c *EtcdCluster) initial() string {
	var list []string
	for _, m := range c.Members {
		list = append(list, m.name+"=http://"+m.seen)
	}
	return strings.Join(list, ",")
}

// healthy reports whether the member knows a leader and answers.
func (m *EtcdMember) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	resp, err := m.get(ctx, "/health")
	if err == nil {
		_ = resp.Body.Close()
	}
	return err == nil
}

// get reads a page of the member; any other status than OK is an error.
func (m *EtcdMember) get(ctx context.Context, page string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr+page, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s of etcd on %s: %s", page, m.Addr, resp.Status)
	}
	return resp, err
}

// Version returns the version of the member.
func (m *EtcdMember) Version(ctx context.Context) (string, error) {
	resp, err := m.get(ctx, "/version")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var v struct {
		Server string `json:"etcdserver"`
	}
	err = json.NewDecoder(resp.Body).Decode(&v)
	return v.Server, err
}

// Metric reads a counter of the member; one that was never counted is 0.
func (m *EtcdMember) Metric(ctx context.Context, name string) (float64, error) {
	resp, err := m.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var sum float64
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), " ")
		if ok && (key == name || strings.HasPrefix(key, name+"{")) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, lines.Err()
}

// Start starts the members that do not run, and waits until all answer. They wait for each
// other.
func (c *EtcdCluster) Start() error {
	var waiting []*Server
	for _, m := range c.Members {
		if m.PID() != 0 {
			continue
		}
		if err := m.launch(); err != nil {
			return err
		}
		waiting = append(waiting, m.Server)
	}
	return awaitAll(waiting)
}

// awaitAll waits until all of the servers are ready.
func awaitAll(all []*Server) error {
	for _, s := range all {
		if err := s.await(); err != nil {
			return err
		}
	}
	return nil
}

// Addrs returns the addresses of the members.
func (c *EtcdCluster) Addrs() (addrs []string) {
	for _, m := range c.Members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

// Kill ends all members at once, as a crash does.
func (c *EtcdCluster) Kill() {
	for _, m := range c.Members {
		m.Kill()
	}
}

// Stop ends all members and removes their data.
func (c *EtcdCluster) Stop() {
	for _, m := range c.Members {
		m.Stop()
	}
}

// Pause suspends all members until resume is called.
func (c *EtcdCluster) Pause() (resume func()) {
	var all []func()
	for _, m := range c.Members {
		all = append(all, m.Pause())
	}
	return func() {
		for _, f := range all {
			f()
		}
	}
}

// Snapshot writes a snapshot and returns its file.
func (c *EtcdCluster) Snapshot() (string, error) {
	m := c.Members[0]
	file := filepath.Join(m.dir, fmt.Sprint("snapshot", time.Now().UnixNano()))
	return file, c.tool("etcdctl", "--endpoints", m.Addr, "snapshot", "save", file)
}

// Restore makes the cluster, of one member, continue from a snapshot under another cluster
// id, as an operator does after a loss.
func (c *EtcdCluster) Restore(snapshot string) error {
	m := c.Members[0]
	m.Kill()
	c.token += "+"
	c.arm()
	tool := "etcdutl" // since 3.5; from 3.6 on etcdctl cannot restore
	if beside(c.binary, tool) == tool {
		tool = "etcdctl"
	}
	if err := errors.Join(os.RemoveAll(m.data()), c.tool(tool, "snapshot", "restore", snapshot, "--name", m.name, "--data-dir", m.data(),
		"--initial-cluster", c.initial(), "--initial-cluster-token", c.token, "--initial-advertise-peer-urls", "http://"+m.seen)); err != nil {
		return err
	}
	return c.Start()
}

// Rejoin starts a member that was killed, and removed from the cluster, anew: with the same address for clients and no
// data. add adds it to the cluster by its address for the other members, and returns the members then, as the
// argument --initial-cluster has them. A learner is not healthy, so it is ready when it answers at all.
func (c *EtcdCluster) Rejoin(m *EtcdMember, add func(name, peer string) (members string, err error)) error {
	m.Kill()
	peer, err := FreePort()
	if err != nil {
		return err
	}
	m.listen = loopback(peer)
	m.seen = m.listen
	members, err := add(m.name, "http://"+m.seen)
	if err != nil {
		return err
	}
	c.arm()
	m.args = append(m.args, "--initial-cluster", members, "--initial-cluster-state", "existing") // the last ones count
	m.answers = func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := m.Version(ctx)
		return err == nil
	}
	if err := os.RemoveAll(m.data()); err != nil {
		return err
	}
	return m.Start()
}

// tool runs a tool of the version that the servers have.
func (c *EtcdCluster) tool(name string, args ...string) error {
	cmd := exec.Command(beside(c.binary, name), args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	return finish(cmd)
}
