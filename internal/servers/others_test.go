// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"net/http"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestEtcd: a member counts, a cluster is killed and started again with its data, and
// continues from a snapshot.
func TestEtcd(t *testing.T) {
	c := Test(t, func() (*EtcdCluster, error) { return Etcd(1, QuickEtcd...) })
	m := c.Members[0]
	const applied = "etcd_server_proposals_applied_total"
	before, err := m.Metric(t.Context(), applied)
	if err != nil || before == 0 {
		t.Fatalf("%s is %v, %v", applied, before, err)
	}
	if missing, err := m.Metric(t.Context(), "none"); missing != 0 || err != nil {
		t.Errorf("a counter that does not exist is %v, %v", missing, err)
	}
	c.Kill()
	if m.healthy() {
		t.Error("a killed member is healthy")
	}
	must.OK(t, c.Start())
	snapshot, err := c.Snapshot()
	if err != nil {
		t.Skip(err) // etcdctl is not installed
	}
	if err := c.Restore(snapshot); err != nil || !m.healthy() {
		t.Errorf("after a restore: %v", err)
	}
}

// TestMemcached: it answers, and counts again from zero after a restart.
func TestMemcached(t *testing.T) {
	s := Test(t, func() (*MemcachedServer, error) { return Memcached("-m", "8") })
	if v, err := s.Version(); err != nil || v == "" {
		t.Fatalf("version %q, %v", v, err)
	}
	bytes, err := s.Stats()
	if err != nil || bytes["limit_maxbytes"] != 8<<20 {
		t.Errorf("limit_maxbytes is %d, %v", bytes["limit_maxbytes"], err)
	}
	must.OK(t, s.Restart())
	if again, err := s.Stats(); err != nil || again["pid"] == bytes["pid"] {
		t.Errorf("the process is the same after a restart, %v", err)
	}
}

// TestS3: it answers, refuses who does not sign, and comes back with its data.
func TestS3(t *testing.T) {
	s := Test(t, func() (*S3Server, error) { return S3() })
	for range 2 {
		resp, err := http.Get(s.Endpoint + "/")
		must.OK(t, err)
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
			t.Errorf("a request without a signature: %s", resp.Status)
		}
		must.OK(t, s.Restart())
	}
}

// TestZooKeeper: a server serves, and again after it was killed and wiped.
func TestZooKeeper(t *testing.T) {
	e := Test(t, func() (*Ensemble, error) { return ZooKeeper(1) })
	s := e.Servers[0]
	if mode := s.Mode(); mode != "standalone" || e.Leader() != nil {
		t.Errorf("mode %q, leader %v", mode, e.Leader())
	}
	s.Kill()
	if mode := s.Mode(); mode != "" {
		t.Errorf("mode %q of a killed server", mode)
	}
	must.OK(t, s.Wipe())
	must.OK(t, s.Start())
}
