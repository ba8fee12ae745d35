// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// StartSentinel starts a sentinel that watches a master called name and promotes
// a replica when it has been silent for as long as down says, if two agree.
func StartSentinel(name string, master *Redis, down time.Duration) (*Redis, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	dir, addr, port, err := place("sentinel")
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
	r := &Redis{&Process{Addr: addr, Port: port, dir: dir, sign: "Sentinel ID is"}}
	r.command = func() *exec.Cmd { return exec.Command(binary, conf, "--sentinel") }
	return r, r.Start()
}
