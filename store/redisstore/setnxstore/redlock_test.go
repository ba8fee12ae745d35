// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
	"github.com/redis/go-redis/v9"
)

// long is a TTL that no test waits for.
const long = 10 * time.Minute

// three are independent servers.
type three []*redistest.Server

func startThree(t *testing.T) three {
	t.Helper()
	return three{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
}

// store returns a store over the servers.
func (s three) store(t *testing.T) *setnxstore.Store {
	t.Helper()
	var clients []redis.UniversalClient
	for _, server := range s {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialTimeout: time.Second})
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	store, err := setnxstore.NewRedlock(clients, nil)
	must.OK(t, err)
	return store
}

// open opens a session.
func (s three) open(t *testing.T) driver.Session {
	t.Helper()
	ses, _, err := s.store(t).Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: long})
	must.OK(t, err)
	return ses
}

// values returns the value of a key on each server.
func (s three) values(t *testing.T, key string) (all []string) {
	t.Helper()
	for _, server := range s {
		text, _ := server.Do("GET", key).Val().(string)
		all = append(all, text)
	}
	return all
}

func claim(seq uint64, name string) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "me"}}}
}

func attempt(t *testing.T, s driver.Session, c *driver.Claim, want driver.State) {
	t.Helper()
	out, err := s.Attempt(t.Context(), c)
	must.OK(t, err)
	if out.State != want {
		t.Fatalf("claim %d of %s is %v, want %v", c.Seq, c.Name, out.State, want)
	}
}

func withdraw(t *testing.T, s driver.Session, seq uint64, name string, want driver.Removed) {
	t.Helper()
	if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: name}); err != nil || found != want {
		t.Errorf("the withdrawal of %s found it %v, %v, want %v", name, found, err, want)
	}
}

func wantBroken(t *testing.T, s driver.Session, want ...uint64) {
	t.Helper()
	renewal, err := s.KeepAlive(t.Context())
	must.OK(t, err)
	if got := slices.Sorted(slices.Values(renewal.Broken)); !slices.Equal(got, want) {
		t.Errorf("broken are %v, want %v", got, want)
	}
}

// TestRedlockConformance checks the store clauses over three servers, all of which a case stops.
func TestRedlockConformance(t *testing.T) {
	t.Parallel()
	var harnesses []func(*testing.T) *drivertest.Harness
	for range 3 {
		all := startThree(t)
		harnesses = append(harnesses, func(t *testing.T) *drivertest.Harness {
			return &drivertest.Harness{
				Open: func() (driver.Store, error) { return all.store(t), nil },
				Sever: func() func() {
					var resume []func()
					for _, server := range all {
						resume = append(resume, server.Pause())
					}
					return func() {
						for _, r := range resume {
							r()
						}
					}
				},
				TTL:   4 * time.Second,
				Slack: time.Second,
				Soon:  20 * time.Second,
			}
		})
	}
	cases := drivertest.Cases()
	report := drivertest.RunCases(t, cases, harnesses...)
	if passed, _, _ := report.Counts(); len(report.Results) == len(cases) && passed < 45 {
		t.Errorf("only %d cases passed: something is skipped that should not be", passed)
	}
}

// TestRedlockHasOneValueOnAllServers: as redsync writes it.
func TestRedlockHasOneValueOnAllServers(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s := all.open(t)
	attempt(t, s, claim(1, "x"), driver.Granted)
	must.OK(t, servers.Await("all servers have it", func() bool { return !slices.Contains(all.values(t, "x"), "") }))
	if v := all.values(t, "x"); v[0] != v[1] || v[1] != v[2] {
		t.Errorf("the values are %v", v)
	}
	withdraw(t, s, 1, "x", driver.WasGranted)
	must.OK(t, servers.Await("all servers are free", func() bool { return strings.Join(all.values(t, "x"), "") == "" }))
}

// TestRedlockMinorityIsGivenBack: two servers have a foreign lock. The third is free after the attempt.
func TestRedlockMinorityIsGivenBack(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s := all.open(t)
	for _, server := range all[:2] {
		must.OK(t, server.Do("SET", "x", "foreign", "PX", 60_000).Err())
	}
	for range 3 {
		attempt(t, s, claim(1, "x"), driver.Busy)
		must.OK(t, servers.Await("the third server is free", func() bool { return all.values(t, "x")[2] == "" }))
	}
	must.OK(t, all[0].Do("DEL", "x").Err())
	attempt(t, s, claim(1, "x"), driver.Granted)
	if v := all.values(t, "x")[1]; v != "foreign" {
		t.Errorf("the foreign lock is %q", v)
	}
	withdraw(t, s, 1, "x", driver.WasGranted)
}

// TestRedlockWithAServerThatIsDown: locks are taken, renewed and unlocked, and the server gets them when
// it is back without its data.
func TestRedlockWithAServerThatIsDown(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s := all.open(t)
	attempt(t, s, claim(1, "before"), driver.Granted)
	all[2].Kill()
	wantBroken(t, s)
	attempt(t, s, claim(2, "during"), driver.Granted)
	wantBroken(t, s)
	must.OK(t, all[2].RedisServer.Start())
	must.OK(t, servers.Await("the server has the locks", func() bool {
		wantBroken(t, s)
		return all.values(t, "before")[2] != "" && all.values(t, "during")[2] != ""
	}))
	must.OK(t, all[0].Do("DEL", "during").Err())
	wantBroken(t, s)
	withdraw(t, s, 1, "before", driver.WasGranted)
	withdraw(t, s, 2, "during", driver.WasGranted)
}

// TestRedlockThatLostItsMajorityIsReported: by operators who delete keys, or servers that lose data.
func TestRedlockThatLostItsMajorityIsReported(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s := all.open(t)
	attempt(t, s, claim(1, "x"), driver.Granted)
	attempt(t, s, claim(2, "y"), driver.Granted)
	must.OK(t, servers.Await("all servers have it", func() bool { return !slices.Contains(all.values(t, "x"), "") }))
	for _, server := range all[:2] {
		must.OK(t, server.Do("DEL", "x").Err())
		must.OK(t, server.Do("SET", "x", "foreign", "PX", 60_000).Err())
	}
	wantBroken(t, s, 1)
	withdraw(t, s, 1, "x", driver.WasBroken)
	if v := all.values(t, "x"); v[0] != "foreign" || v[1] != "foreign" || v[2] != "" {
		t.Errorf("the values are %v, want the foreign ones and our own gone", v)
	}
	wantBroken(t, s)
	withdraw(t, s, 2, "y", driver.WasGranted)
}

// TestRedlockThatWasLostIsNotGrantedAgain: two servers lose their data one after the other, and another caller has the
// lock on them. When that is free, the claim stays broken until it is withdrawn.
func TestRedlockThatWasLostIsNotGrantedAgain(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s := all.open(t)
	attempt(t, s, claim(1, "x"), driver.Granted)
	must.OK(t, servers.Await("all servers have it", func() bool { return all.count(t, "x") == 3 }))
	lose := func(server *redistest.Server) {
		must.OK(t, server.Do("FLUSHALL").Err())
		must.OK(t, server.Do("SET", "x", "foreign", "PX", 600_000).Err())
	}
	lose(all[0])
	wantBroken(t, s)
	lose(all[1])
	wantBroken(t, s, 1)
	for _, server := range all[:2] {
		must.OK(t, server.Do("DEL", "x").Err())
	}
	attempt(t, s, claim(1, "x"), driver.Absent)
	wantBroken(t, s, 1)
	withdraw(t, s, 1, "x", driver.WasBroken)
	wantBroken(t, s)
	if n := all.count(t, "x"); n != 0 {
		t.Errorf("%d servers have the lock after its withdrawal", n)
	}
}

// TestRedlockWithTooFewServersCostsNoOtherLock: two servers have a lock, and one of them goes down. The lock is lost, and
// those that a majority still has are not.
func TestRedlockWithTooFewServersCostsNoOtherLock(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s, _, err := all.store(t).Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second})
	must.OK(t, err)
	must.OK(t, all[2].Do("SET", "x", "foreign", "PX", 600_000).Err())
	attempt(t, s, claim(1, "x"), driver.Granted)
	attempt(t, s, claim(2, "y"), driver.Granted)
	must.OK(t, servers.Await("all servers have it", func() bool { return all.count(t, "y") == 3 }))
	all[1].Kill()
	must.OK(t, servers.Await("the loss is reported", func() bool {
		r, err := s.KeepAlive(t.Context())
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("the renewal: %v", err)
		}
		return err == nil && slices.Equal(r.Broken, []uint64{1})
	}))
	withdraw(t, s, 1, "x", driver.WasBroken)
	wantBroken(t, s)
	withdraw(t, s, 2, "y", driver.WasGranted)
}

// TestRedlockLateAttemptIsFreed: a server that stood still gets an attempt after the claim was given
// up. It must not keep the lock.
func TestRedlockLateAttemptIsFreed(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	s := all.open(t)
	must.OK(t, all[0].Do("SET", "x", "foreign", "PX", 600_000).Err())
	must.OK(t, all[1].Do("SET", "x", "foreign", "PX", 600_000).Err())
	resume := all[2].Pause()
	attempt(t, s, claim(1, "x"), driver.Busy)
	resume()
	must.OK(t, servers.Await("the server is free", func() bool {
		wantBroken(t, s)
		return all.values(t, "x")[2] == ""
	}))
	// The claim can be granted later.
	must.OK(t, all[0].Do("DEL", "x").Err())
	attempt(t, s, claim(1, "x"), driver.Granted)
}

// TestRedlockCountsAServerOnce: a server that is there twice would be two of three, and let two callers hold one
// lock. The same address is refused, and Check finds a server behind two addresses.
func TestRedlockCountsAServerOnce(t *testing.T) {
	t.Parallel()
	one, other := redistest.Start(t), redistest.Start(t)
	proxy, err := servers.NewProxy(one.Addr)
	must.OK(t, err)
	t.Cleanup(proxy.Close)
	clients := func(addrs ...string) (all []redis.UniversalClient) {
		for i, addr := range addrs {
			client := redis.NewClient(&redis.Options{Addr: addr, DB: i})
			t.Cleanup(func() { _ = client.Close() })
			all = append(all, client)
		}
		return all
	}
	if _, err := setnxstore.NewRedlock(clients(one.Addr, other.Addr, one.Addr), nil); err == nil || !strings.Contains(err.Error(), one.Addr+" is there twice") {
		t.Errorf("a server that is there twice: %v", err)
	}
	store, err := setnxstore.NewRedlock(clients(one.Addr, other.Addr, proxy.Addr), nil)
	must.OK(t, err)
	found, err := store.Check(t.Context())
	must.OK(t, err)
	if !slices.ContainsFunc(found, func(f driver.Finding) bool {
		return f.Code == "same-server" && f.Severity == driver.Danger && strings.Contains(f.Reason, one.Addr)
	}) {
		t.Errorf("findings are %v", found)
	}
}

// TestRedlockCheckWithAServerThatIsSilent: what is wrong with the other servers is found.
func TestRedlockCheckWithAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	var clients []redis.UniversalClient
	for _, server := range all {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute})
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	store, err := setnxstore.NewRedlock(clients, nil)
	must.OK(t, err)
	must.OK(t, all[1].Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru").Err())
	_, err = store.Check(t.Context())
	must.OK(t, err)
	defer all[0].Pause()()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	found, err := store.Check(ctx)
	if err == nil || !slices.ContainsFunc(found, func(f driver.Finding) bool { return f.Code == "eviction" && f.Node == all[1].Addr }) {
		t.Errorf("findings are %v, %v", found, err)
	}
}

func TestRedlockRefusals(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "localhost:1"})
	defer client.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}})
	defer cluster.Close()
	for want, tt := range map[string]struct {
		clients []redis.UniversalClient
		opts    *setnxstore.Options
	}{
		"it got 1":         {clients: []redis.UniversalClient{client}},
		"not a cluster":    {clients: []redis.UniversalClient{client, cluster}},
		"needs a client":   {clients: []redis.UniversalClient{client, nil}},
		"publish nothing":  {clients: []redis.UniversalClient{client, client}, opts: &setnxstore.Options{Channel: "x"}},
		"one %s in the pl": {clients: []redis.UniversalClient{client, client}, opts: &setnxstore.Options{Key: "x"}},
	} {
		if _, err := setnxstore.NewRedlock(tt.clients, tt.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	all := startThree(t)
	store := all.store(t)
	if text := fmt.Sprint(store.Caps().Assumes); !strings.Contains(text, "majority of servers") {
		t.Errorf("it assumes: %s", text)
	}
	found, err := store.Check(t.Context())
	must.OK(t, err)
	if len(found) != 1 || found[0].Code != "efficiency-only" {
		t.Errorf("findings are %v", found)
	}
	if st, err := store.Inspect(t.Context(), "x"); err != nil || len(st.Holders) != 0 {
		t.Errorf("a free lock is %+v, %v", st, err)
	}
	ses := all.open(t)
	attempt(t, ses, claim(7, "x"), driver.Granted)
	must.OK(t, servers.Await("Inspect shows the claim", func() bool {
		st, err := store.Inspect(t.Context(), "x")
		return err == nil && len(st.Holders) == 1 && st.Holders[0].Claim.Seq == 7 && st.Holders[0].Record.Owner == "me"
	}))
}
