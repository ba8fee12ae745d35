// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// TestRestartedServerKeepsItsRole: a server that a sentinel made the master is the master again when it restarts before the
// sentinels miss it. Restarted as the replica that it was at first, it would follow the old master, which follows it:
// no server is a master then, and sentinels promote none of the two, because neither has had a master for too long.
func TestRestartedServerKeepsItsRole(t *testing.T) {
	r, err := sentinel.Start(2*time.Second, fault.Wants{})
	if err != nil && strings.Contains(err.Error(), "install") {
		t.Skip(err)
	}
	must.OK(t, err)
	defer r.Stop()
	role := func(i int) string { return r.Servers[i].(*server.Redis).Node().Info("replication", "role") }
	must.OK(t, r.Failover(t.Context()))
	promoted := 0
	until(t, "another server is the master, and the others follow it", func() bool {
		promoted, err = r.Master()
		return err == nil && promoted != 0 && role(promoted) == "master" && role(0) == "slave" && role(3-promoted) == "slave"
	})
	r.Servers[promoted].Kill()
	must.OK(t, r.Servers[promoted].Start())
	if got := role(promoted); got != "master" {
		t.Errorf("the role of the promoted server after a restart is %q, want master", got)
	}
	until(t, "a server is the master", func() bool {
		m, err := r.Master()
		return err == nil && role(m) == "master"
	})
}
