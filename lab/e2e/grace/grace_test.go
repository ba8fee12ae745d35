// SPDX-License-Identifier: Apache-2.0

//go:build unix

package grace

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

const members = 12

// TestFleetGetsGraceByARollingDeployment: twelve processes under load are replaced one after another by such that ask for grace. None is
// refused, no lease is lost, and no second passes without a grant. Then the server comes back empty, and leases are kept.
func TestFleetGetsGraceByARollingDeployment(t *testing.T) {
	server := started(t)
	f := newFleet(t, 3*time.Second)
	began := time.Now()
	f.start(members, "redis://"+server.Addr)
	time.Sleep(time.Until(began.Add(4 * time.Second))) // the incarnation is older than max_ttl: a fleet that has been there for long
	rolling := time.Now()
	url := "redis://" + server.Addr + "?grace=true&max_ttl=3s"
	f.roll(url)
	if quiet := f.quiet(rolling, time.Now()); quiet > time.Second {
		t.Errorf("no lock was granted for %v", quiet)
	}
	server.Kill()
	must.OK(t, server.Start())
	back := time.Now()
	// A process that comes now, because those before may hand off without the server what it granted before (K16).
	f.members = append(f.members, f.begin("late", url, true))
	if waited := time.Since(back); waited < time.Second {
		t.Errorf("the first grant came %v after a data loss, which is no grace period", waited)
	}
	f.granted(back, 200, time.Minute)
	f.check()
	figures()
}

// TestFleetOnSentinelGetsGrace is the same, and then a replica takes over that has missed the last locks.
func TestFleetOnSentinelGetsGrace(t *testing.T) {
	s := servers.Test(t, func() (*servers.Sentinels, error) { return servers.Redis.StartSentinels(time.Second) })
	url := "redis-sentinel://" + s.Addrs[0] + "/" + servers.MasterName + "?accept=min-replicas"
	f := newFleet(t, 6*time.Second)
	began := time.Now()
	f.start(members, url)
	time.Sleep(time.Until(began.Add(7 * time.Second)))
	rolling := time.Now()
	f.roll(url + "&grace=true&max_ttl=6s")
	if quiet := f.quiet(rolling, time.Now()); quiet > time.Second {
		t.Errorf("no lock was granted for %v", quiet)
	}
	master, err := s.Master()
	must.OK(t, err)
	must.OK(t, master.CutReplicas())
	f.granted(time.Now(), 50, 10*time.Second) // which the replica misses
	master.Kill()
	if _, err := s.AwaitPromoted(master); err != nil {
		t.Fatal(err)
	}
	f.granted(time.Now(), 200, time.Minute)
	f.check()
	figures()
}

// TestFleetOnPostgreSQLGetsGrace is the same on a database, and then a replica takes over that has missed the last commits.
func TestFleetOnPostgreSQLGetsGrace(t *testing.T) {
	primary := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres("wal_level=replica", "max_wal_senders=4") })
	front, replication := proxyTo(t, primary.Addr), proxyTo(t, primary.Addr)
	replica := servers.Test(t, func() (*servers.Server, error) { return primary.Replica(replication.Port) })
	url := "postgres://postgres@" + front.Addr + "/postgres?sslmode=disable&migrate=true&accept=replicas-without-grace"
	f := newFleet(t, 6*time.Second)
	began := time.Now()
	f.start(members, url)
	time.Sleep(time.Until(began.Add(7 * time.Second)))
	rolling := time.Now()
	f.roll(url + "&grace=true&max_ttl=6s")
	if quiet := f.quiet(rolling, time.Now()); quiet > time.Second {
		t.Errorf("no lock was granted for %v", quiet)
	}
	replication.Close()
	f.granted(time.Now(), 50, 20*time.Second) // which the replica misses
	primary.Kill()
	must.OK(t, replica.Promote())
	front.Retarget(replica.Addr)
	front.Cut()
	f.granted(time.Now(), 200, time.Minute)
	f.check()
	figures()
}

func proxyTo(t *testing.T, addr string) *servers.Proxy {
	t.Helper()
	proxy, err := servers.NewProxy(addr)
	must.OK(t, err)
	t.Cleanup(func() { proxy.Close() })
	return proxy
}

// TestServerThatComesBackEmptyGrantsWithinATTL: with the settings of the README the next lock waits for no longer than a TTL.
func TestServerThatComesBackEmptyGrantsWithinATTL(t *testing.T) {
	const ttl = 15 * time.Second // the default of fencelock.Options
	server := started(t)
	f := newFleet(t, ttl)
	f.members = append(f.members, f.begin("one", "redis://"+server.Addr+"?grace=true", true))
	server.Kill()
	must.OK(t, server.Start())
	back := time.Now()
	waited := f.granted(back, 1, time.Minute).Sub(back)
	f.check()
	ratio := waited.Seconds() / ttl.Seconds()
	figure.Print("grace-failover-seconds-vs-ttl", ratio, figure.AtMost(1.2))
	if ratio > 1.2 {
		t.Errorf("the first lock after a restart took %v with a TTL of %v", waited, ttl)
	}
}

func started(t *testing.T) *servers.RedisServer {
	t.Helper()
	return servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
}

func figures() {
	figure.Print("grace-rolling-refused", totals.refused, figure.Exactly(0))
	figure.Print("grace-rolling-overlaps", totals.overlaps, figure.Exactly(0))
	figure.Print("grace-rolling-leases-lost", totals.lost, figure.Exactly(0))
}
