// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// EtcdMember is where a member listens, and where the others find it.
type EtcdMember struct {
	*Process
	// Listen is its port for the other members; Seen is the address that they use.
	Listen, Seen string
	name         string
}

// NewEtcd prepares n members that know each other by the addresses that front
// makes of those they listen at. None of them runs.
func NewEtcd(n int, front func(i int, addr string) (string, error)) ([]*EtcdMember, error) {
	binary, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("etcd is %w; on Debian: apt-get install etcd-server", ErrMissing)
	}
	var members []*EtcdMember
	var list []string
	for i := range n {
		dir, addr, port, err := place("etcd")
		if err != nil {
			return nil, err
		}
		m := &EtcdMember{Process: &Process{Addr: addr, Port: port, dir: dir}, name: fmt.Sprintf("m%d", i)}
		members = append(members, m)
		peer, err := servers.FreePort()
		if err == nil {
			m.Listen = fmt.Sprintf("127.0.0.1:%d", peer)
			m.Seen, err = front(i, m.Listen)
		}
		if err != nil {
			return members, err
		}
		list = append(list, m.name+"=http://"+m.Seen)
	}
	for _, m := range members {
		m.answers = func() bool { return m.healthy() }
		m.command = func() *exec.Cmd {
			return exec.Command(binary, "--name", m.name, "--data-dir", filepath.Join(m.dir, "data"),
				"--listen-client-urls", "http://"+m.Addr, "--advertise-client-urls", "http://"+m.Addr,
				"--listen-peer-urls", "http://"+m.Listen, "--initial-advertise-peer-urls", "http://"+m.Seen,
				"--initial-cluster", strings.Join(list, ","), "--initial-cluster-state", "new",
				"--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap", "--log-level", "error")
		}
	}
	return members, nil
}

// healthy: it knows a leader and answers.
func (m *EtcdMember) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
