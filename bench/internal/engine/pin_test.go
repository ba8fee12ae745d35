// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestPinned: a server runs on a processor that is not that of the clients, or it does
// not run and says why.
func TestPinned(t *testing.T) {
	t.Setenv("BENCH_PINNED", "1")
	for name, start := range map[string]func(context.Context) (Server, error){
		"ZooKeeper": StartZooKeeper, "PostgreSQL": StartPostgres, "MariaDB": StartMariaDB,
	} {
		s, err := start(t.Context())
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), "-pin: "+name) {
			t.Errorf("%s, pinned: %v", name, err)
		}
	}
	for _, program := range []string{"taskset", "redis-server"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed; on Debian: apt-get install util-linux redis-server")
		}
	}
	s, err := StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	out, err := exec.Command("taskset", "-c", "-p", strconv.Itoa(s.(*Redis).PID())).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), ": 0") {
		t.Errorf("Redis, pinned: %s, %v", out, err)
	}
}
