// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestConformance checks every store clause on every kind of server, in every
// arrangement of them, with every client library, with and without grace. Scripts
// see a clock that is moved on instead of waiting; TestACLSuffices does without.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		for _, flavor := range redistest.Flavors {
			t.Run(place.name+"/"+string(flavor), func(t *testing.T) {
				t.Parallel()
				flavor.Need(t)
				to, losses := place.start(t, flavor)
				for _, lib := range libraries {
					for _, grace := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/grace=%t", lib.name, grace), func(t *testing.T) {
							if testing.Short() && !inShort(place.name, flavor, lib.name, grace) {
								t.Skip("-short: another arrangement has each pair of these")
							}
							conform(t, lib, grace, to, losses, place.buckets)
						})
					}
				}
			})
		}
	}
}

// inShort chooses six of the 24 arrangements: every two of place, flavor, library and grace meet in one of them. All of them are what
// CI has no time for; make race-redis runs them.
func inShort(place string, flavor redistest.Flavor, library string, grace bool) bool {
	return map[string]string{
		"one/redis": "go-redis/false", "one/valkey": "rueidis/true",
		"sentinel/redis": "rueidis/false", "sentinel/valkey": "go-redis/true",
		"cluster/redis": "rueidis/true", "cluster/valkey": "go-redis/false",
	}[place+"/"+string(flavor)] == fmt.Sprintf("%s/%t", library, grace)
}

// TestShortConformanceMeetsEveryPair: an arrangement that is renamed would silently run nowhere.
func TestShortConformanceMeetsEveryPair(t *testing.T) {
	pairs, all := map[string]bool{}, 0
	for _, place := range places {
		for _, flavor := range redistest.Flavors {
			for _, lib := range libraries {
				for _, grace := range []bool{false, true} {
					if !inShort(place.name, flavor, lib.name, grace) {
						continue
					}
					all++
					of := []string{place.name, string(flavor), lib.name, fmt.Sprint(grace)}
					for i := range of {
						for j := range i {
							pairs[of[j]+" "+of[i]] = true
						}
					}
				}
			}
		}
	}
	if want := 3*2 + 3*2 + 3*2 + 2*2 + 2*2 + 2*2; all != 6 || len(pairs) != want {
		t.Errorf("%d arrangements, %d pairs, want 6 and %d", all, len(pairs), want)
	}
}

// places are the arrangements of servers.
var places = []struct {
	name    string
	buckets int
	// start returns how to connect, and a function for how a namespace with one bucket
	// loses its data there.
	start func(*testing.T, redistest.Flavor) (login, func(namespace string) (redistest.Losses, error))
}{
	{"one", 1, func(t *testing.T, f redistest.Flavor) (login, func(string) (redistest.Losses, error)) {
		server := f.Start(t)
		return login{Addr: server.Addr}, func(string) (redistest.Losses, error) { return server.Losses(), nil }
	}},
	{"sentinel", 1, func(t *testing.T, f redistest.Flavor) (login, func(string) (redistest.Losses, error)) {
		set := f.StartSentinels(t, redistest.Never)
		return login{Sentinels: set.Addrs}, func(string) (redistest.Losses, error) { return set.Losses(), nil }
	}},
	{"cluster", 8, func(t *testing.T, f redistest.Flavor) (login, func(string) (redistest.Losses, error)) {
		cluster := f.StartCluster(t, redistest.Never)
		return login{Nodes: cluster.Addrs()}, func(namespace string) (redistest.Losses, error) {
			return cluster.Losses(namespace + ":{" + namespace + ":0}")
		}
	}},
}

// conform runs all cases. Those that need no data loss use as many buckets as
// the servers can use; the others use one, so that it is enough to replace the
// server which keeps it.
func conform(t *testing.T, lib library, grace bool, to login, losses func(namespace string) (redistest.Losses, error), buckets int) {
	namespace := eager + strings.ReplaceAll(t.Name(), "/", "-")
	lose, err := losses(namespace)
	must.OK(t, err)
	clock := newClock()
	to.Hook, to.Wrap = clock, clock.wrap
	rig := &rig{lib: lib, to: to}
	t.Cleanup(rig.close)
	for _, n := range []string{namespace, namespace + "-calm"} {
		clocks.Store(n, clock.now)
	}
	defer func() { t.Logf("%d transactions and releases of plain commands", clock.plain.Load()) }()
	opts := native.Options{Namespace: namespace + "-calm", Grace: grace, Buckets: buckets}
	begin(t, lib.open(t, to, &opts).Store, buckets, clock)
	calm := rig.harness(opts)
	calm.Elapse = clock.elapse
	rough := rig.harness(native.Options{Namespace: namespace, Grace: grace, Buckets: 1})
	rough.Elapse = clock.elapse
	rig.let(rough, lose)
	drivertest.RunCases(t, slices.DeleteFunc(drivertest.Cases(), drivertest.Case.Disrupts), on(calm))
	drivertest.RunCases(t, slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool { return !c.Disrupts() }), on(rough))
}

// on makes one harness serve one case after the other.
func on(h *drivertest.Harness) func(*testing.T) *drivertest.Harness {
	return func(*testing.T) *drivertest.Harness { return h }
}

// begin lets the grace pass that every bucket of a new namespace has: the cases do
// so for one name each.
func begin(t *testing.T, s Store, buckets int, c *clock) {
	t.Helper()
	var grace time.Duration
	begun := map[string]bool{}
	for i := 0; len(begun) < buckets; i++ {
		name := fmt.Sprint(i)
		if begun[s.Shard(name)] {
			continue
		}
		begun[s.Shard(name)] = true
		if err := s.SetLimit(t.Context(), name, 0); err != nil { // sets the namespace up
			t.Fatal(err)
		}
		st, err := s.Inspect(t.Context(), name)
		must.OK(t, err)
		grace = max(grace, st.Grace)
	}
	c.elapse(grace)
}

// rig is a way to servers, for one case after the other.
type rig struct {
	lib  library
	to   login
	open []*client
}

// harness returns a harness without losses.
func (r *rig) harness(opts native.Options) *drivertest.Harness {
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			c, err := r.lib.dial(r.to, &opts)
			if err != nil {
				return nil, err
			}
			r.open = append(r.open, c)
			return c.Store, nil
		},
		// A stall of a second or two changes nothing: the cases look a slack before
		// and after the end of a TTL.
		TTL:   6 * time.Second,
		Slack: 2 * time.Second,
		Soon:  20 * time.Second,
	}
}

// let gives a harness the losses.
func (r *rig) let(h *drivertest.Harness, lose redistest.Losses) {
	h.Reset, h.Sever = lose.Reset, lose.Sever
	h.Restart = func() error { return r.back(lose.Restart()) }
	h.Checkpoint = func() func() error {
		rewind := lose.Checkpoint()
		return func() error { return r.back(rewind()) }
	}
}

// back makes every client notice that its connections are broken. That the first
// call after a restart may fail is so, and known to the core; the cases are about
// what comes after.
func (r *rig) back(err error) error {
	for _, c := range r.open {
		for tries := 0; err == nil && c.ping(context.Background()) != nil; tries++ {
			if tries == 100 {
				err = fmt.Errorf("%s does not find the server again", r.lib.name)
			}
		}
	}
	return err
}

func (r *rig) close() {
	for _, c := range r.open {
		c.close()
	}
}
