// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/bench/internal/child"
	"github.com/fencelock/fencelock/internal/servers"
)

// Memcached is a running memcached, as it comes.
type Memcached struct {
	addr string
	cmd  *exec.Cmd
}

// StartMemcached starts a server. The caller stops it.
func StartMemcached(ctx context.Context) (Server, error) {
	path, err := exec.LookPath("memcached")
	if err != nil {
		return nil, errors.New("memcached is not installed; on Debian: apt-get install memcached")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "0"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "nobody") // memcached asks for that
	}
	m := &Memcached{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), cmd: child.Server(path, args...)}
	if err := servers.Start(m.cmd); err != nil {
		return nil, err
	}
	if err := m.ready(ctx); err != nil {
		m.Stop()
		return nil, fmt.Errorf("memcached on %s: %w", m.addr, err)
	}
	return m, nil
}

// ready waits until the server answers.
func (m *Memcached) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := m.Version(ctx)
	for err != nil && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		_, err = m.Version(ctx)
	}
	return err
}

// Addr implements Server.
func (m *Memcached) Addr() string { return m.addr }

// Version implements Server.
func (m *Memcached) Version(ctx context.Context) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprint(conn, "version\r\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return "memcached " + strings.TrimPrefix(strings.TrimSpace(line), "VERSION "), err
}

// ResetStats implements Server: what it counts is not read.
func (m *Memcached) ResetStats(context.Context) error { return nil }

// Stats implements Server: what it counts is not read.
func (m *Memcached) Stats(context.Context) (Stats, error) { return nil, nil }

// CPU implements Server. Only Linux tells.
func (m *Memcached) CPU(context.Context) (float64, error) { return processCPU(m.cmd.Process.Pid) }

// Memory implements Server: what is in memory. Only Linux tells.
func (m *Memcached) Memory(context.Context) (float64, error) {
	return processMemory(m.cmd.Process.Pid)
}

// Stop implements Server.
func (m *Memcached) Stop() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}
