// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
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
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skip("taskset is not installed; on Debian: apt-get install util-linux")
	}
	s, err := StartRedis(t.Context())
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	defer s.Stop()
	out, err := exec.Command("taskset", "-c", "-p", strconv.Itoa(s.(*Redis).PID())).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), ": 0") {
		t.Errorf("Redis, pinned: %s, %v", out, err)
	}
}
