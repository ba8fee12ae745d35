// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// StartSentinel starts a sentinel that watches a master called name and promotes
// a replica when it has been silent for as long as down says, if two agree.
func StartSentinel(name string, master *Redis, down time.Duration) (*Redis, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "torture-sentinel")
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nprotected-mode no\n", port, dir) +
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2\n", name, master.Port) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", name, down.Milliseconds()) +
		// A failover that fails, on a busy machine, is tried again after twice this.
		fmt.Sprintf("sentinel failover-timeout %s 2500\nsentinel parallel-syncs %s 2\n", name, name)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r := &Redis{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Port: port, dir: dir}
	return r, r.run(exec.Command(binary, conf, "--sentinel"), "Sentinel ID is")
}
