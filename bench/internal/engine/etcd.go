// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/bench/internal/child"
	"github.com/fencelock/fencelock/internal/servers"
)

// Etcd is a running etcd server, with its data on disk as it comes.
type Etcd struct {
	addr string
	cmd  *exec.Cmd
	dir  string
}

// StartEtcd starts a server. The caller stops it.
func StartEtcd(ctx context.Context) (Server, error) {
	path, err := exec.LookPath("etcd")
	if err != nil {
		return nil, errors.New("etcd is not installed; on Debian: apt-get install etcd-server")
	}
	client, err := freePort()
	if err != nil {
		return nil, err
	}
	peer, err := freePort()
	if err != nil {
		return nil, err
	}
	e := &Etcd{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(client))}
	if e.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	peerURL := "http://127.0.0.1:" + strconv.Itoa(peer)
	e.cmd = child.Server(path, "--data-dir", filepath.Join(e.dir, "data"), "--log-level", "error",
		"--listen-client-urls", "http://"+e.addr, "--advertise-client-urls", "http://"+e.addr,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL)
	if err := servers.Start(e.cmd); err != nil {
		return nil, errors.Join(err, os.RemoveAll(e.dir))
	}
	if err := e.ready(ctx); err != nil {
		e.Stop()
		return nil, fmt.Errorf("etcd on %s: %w", e.addr, err)
	}
	return e, nil
}

// ready waits until the server says that it is well.
func (e *Etcd) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		answer, err := http.Get("http://" + e.addr + "/health")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ctx.Err()
}

// Addr implements Server.
func (e *Etcd) Addr() string { return e.addr }

// Version implements Server.
func (e *Etcd) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "etcd", "--version").Output()
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(line, "etcd Version: "); ok {
			return "etcd " + strings.TrimSpace(v), nil
		}
	}
	return "etcd", err
}

// ResetStats implements Server: etcd does not count.
func (e *Etcd) ResetStats(context.Context) error { return nil }

// Stats implements Server: etcd does not count.
func (e *Etcd) Stats(context.Context) (Stats, error) { return nil, nil }

// CPU implements Server. Only Linux tells.
func (e *Etcd) CPU(context.Context) (float64, error) { return processCPU(e.cmd.Process.Pid) }

// Memory implements Server: what is in memory. Only Linux tells.
func (e *Etcd) Memory(context.Context) (float64, error) { return processMemory(e.cmd.Process.Pid) }

// Stop implements Server.
func (e *Etcd) Stop() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	_ = os.RemoveAll(e.dir)
}
