// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestCutOffsOfOthers does to other tools what TestCutOffs does to run, and prints
// what becomes of their command. It asserts nothing about them but that the
// measurement was one.
func TestCutOffsOfOthers(t *testing.T) {
	t.Run("etcdctl", etcdctlCutOff)
	t.Run("flock", flockCutOff)
}

// etcdctlCutOff cuts etcdctl lock off from an etcd that goes on, and checks whether
// its command is alive when another has the lock.
func etcdctlCutOff(t *testing.T) {
	if _, err := exec.LookPath("etcdctl"); err != nil {
		t.Skip("etcdctl is not installed; on Debian: apt-get install etcd-client")
	}
	addr := startEtcd(t)
	link := newProxy(t, addr)
	first := lockWith(t, etcdctl(link.addr, "lock", "--ttl=2", "beside", "--"))
	link.cut()
	second := lockWith(t, etcdctl(addr, "lock", "--ttl=2", "beside", "--"))
	granted := time.Now()
	select {
	case died := <-first.died:
		fmt.Printf("beside: etcdctl lock, cut off: its command died %v before the next began\n", granted.Sub(died).Round(time.Millisecond))
	case <-time.After(3 * time.Second):
		fmt.Printf("beside: etcdctl lock, cut off: its command was alive when the next began, and %v later, when the measurement ended\n",
			time.Since(granted).Round(time.Second))
	}
	second.stop()
	first.stop()
}

// flockCutOff: there is no server to be cut off from. What can be compared is the
// death of the wrapper.
func flockCutOff(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock is not installed; on Debian: apt-get install util-linux")
	}
	file := filepath.Join(t.TempDir(), "lock")
	v := lockWith(t, exec.Command("flock", file))
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
	try := bounded(t, "flock", "--nonblock", file, "true").Run()
	alive, held := true, try != nil
	select {
	case <-v.died:
		alive = false
	case <-time.After(500 * time.Millisecond):
	}
	fmt.Printf("beside: flock, one host, nothing to be cut off from; wrapper killed: its command lives: %v, and keeps the lock: %v\n", alive, held)
	v.stop()
}

// rival is the command of another tool: a process that holds a pipe open.
type rival struct {
	cmd  *exec.Cmd
	died chan time.Time
	pid  int
}

// lockWith runs a command under another tool and returns when it runs.
func lockWith(t *testing.T, cmd *exec.Cmd) *rival {
	t.Helper()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "alive")
	must.OK(t, syscall.Mkfifo(fifo, 0o600))
	cmd.Args = append(cmd.Args, "sh", "-c", `exec 5>`+fifo+`; echo $$ >`+dir+`/pid; echo >&5; exec sleep 60`)
	must.OK(t, servers.Start(cmd))
	r := &rival{cmd: cmd, died: make(chan time.Time, 1)}
	started := make(chan struct{})
	go func() {
		f, err := os.Open(fifo)
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = f.Read(make([]byte, 1))
		close(started)
		_, _ = io.Copy(io.Discard, f)
		r.died <- time.Now()
	}()
	select {
	case <-started:
	case <-time.After(patience):
		t.Fatalf("%v did not get the lock", cmd.Args)
	}
	r.pid = pidIn(t, filepath.Join(dir, "pid"))
	t.Cleanup(r.stop)
	return r
}

// stop ends the command and its tool.
func (r *rival) stop() {
	_ = syscall.Kill(r.pid, syscall.SIGKILL)
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func etcdctl(addr string, args ...string) *exec.Cmd {
	cmd := exec.Command("etcdctl", append([]string{"--endpoints=" + addr}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	return cmd
}

// startEtcd starts an etcd that ends with the test.
func startEtcd(t *testing.T) string {
	t.Helper()
	return servers.Test(t, func() (*servers.EtcdCluster, error) { return servers.Etcd(1) }).Members[0].Addr
}
