// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Kind is a kind of server.
type Kind struct {
	Name string
	// Cores is how many cores one server uses for locks, 0 for one: Redis does one thing at once.
	Cores int
	// Group is what several servers that keep the same names are called, Size how many they are, and Each reports whether each
	// of them does the same work, so that their cores add up. Otherwise all work is planned for the cores of one: in an
	// ensemble the leader has most of it, and the time of a replica counts as that of its master.
	Group string
	Size  int
	Each  bool
	// Trips is how many round trips Lock and Unlock take.
	Trips float64
	// Splits reports whether names can be spread over more of them without package shard.
	Splits bool
	// Buckets is how many parts the names have, each with its own session; 0 for one on each server.
	Buckets int
	// Masters is how many servers the units were measured on, 0 for one, and Nodes how many a process
	// connects to: replicas too.
	Masters, Nodes int
	// MaxConnections is the limit of one server as it comes, 0 if it has none that matters.
	MaxConnections int
	// Schemes begin the URLs of stores that keep their locks on such a server.
	Schemes []string
}

// Keeps returns an error if the store of a URL is not of this kind.
func (k Kind) Keeps(scheme string) error {
	if slices.Contains(k.Schemes, scheme) {
		return nil
	}
	for _, other := range Kinds {
		if slices.Contains(other.Schemes, scheme) {
			return fmt.Errorf("--calibrate: the store is %s://, and the plan is for %s; use --server %s, or a store that begins with %s://", scheme, k.Name, other.Name, k.Schemes[0])
		}
	}
	return fmt.Errorf("--calibrate: the store is %s://, for which there is no plan; use a store that begins with %s://, or leave --calibrate out", scheme, k.Schemes[0])
}

// cores is how many cores do the work of a server, or of a group.
func (k Kind) cores() float64 {
	if k.Each {
		return float64(max(1, k.Cores) * k.size())
	}
	return float64(max(1, k.Cores))
}

func (k Kind) masters() int { return max(1, k.Masters) }
func (k Kind) nodes() int   { return max(1, k.Nodes) }
func (k Kind) size() int    { return max(1, k.Size) }

// OneCore returns an error if a server of this kind cannot use several cores.
func (k Kind) OneCore() error {
	switch {
	case k.Cores > 1:
		return nil
	case k.Each:
		return fmt.Errorf("--cores: each node of a %s executes the calls of locks on one core; leave the flag out", k.Group)
	}
	return fmt.Errorf("--cores: %s executes the calls of locks on one core; leave the flag out", k.Name)
}

// layout is how many servers are to be run, and what they are.
func (k Kind) layout(masters int) (servers int, words string) {
	servers = masters * k.size()
	switch {
	case k.Splits:
		return servers, fmt.Sprintf("%d servers: %d masters that share the names, and a replica of each", servers, masters)
	case k.size() > 1 && masters > 1:
		return servers, fmt.Sprintf("%d servers: %d %ss of %d that share the names", servers, masters, k.Group, k.size())
	case k.size() > 1:
		return servers, fmt.Sprintf("%d servers: one %s", servers, k.Group)
	case masters > 1:
		return servers, fmt.Sprintf("%d servers that share the names", servers)
	}
	return servers, "1 server"
}

// one is what the names are spread over.
func (k Kind) one() string {
	if k.Group != "" {
		return k.Group
	}
	return k.Name + " server"
}

// sessions is how many sessions a process has on average: one in each part of the names that it uses. A session
// that was not used for as long as it is trusted is closed.
func (k Kind) sessions(l Load, masters int) float64 {
	parts, markers := 1.0, 0.0
	switch {
	case k.Buckets > 0:
		parts = float64(k.Buckets)
	case masters > 1: // shards: each member also has the marker of the process
		parts, markers = float64(masters), float64(masters)
	}
	n := float64(l.Processes)
	held, used := float64(l.Held)/n, l.Rate/n*trusted*l.TTL.Seconds()
	unused := math.Pow(1-1/parts, held) * math.Exp(-used/parts)
	if parts == 1 {
		unused = math.Max(0, 1-held) * math.Exp(-used)
	}
	return parts*(1-unused) + markers
}

var (
	ofRedis = []string{"redis", "rediss", "valkey", "valkeys", "redis-sentinel", "rediss-sentinel", "valkey-sentinel", "valkeys-sentinel"}
	ofMySQL = []string{"mysql", "mariadb"}
)

// Kinds are those for which units are measured.
var Kinds = []Kind{
	{Name: "redis", Trips: 2, MaxConnections: 10_000, Schemes: ofRedis},
	{Name: "valkey", Trips: 2, MaxConnections: 10_000, Schemes: ofRedis},
	{Name: "cluster", Trips: 2, Splits: true, Buckets: 32, Masters: 3, Size: 2, Nodes: 6, MaxConnections: 10_000, Schemes: []string{"redis-cluster", "rediss-cluster", "valkey-cluster", "valkeys-cluster"}},
	{Name: "quorum", Group: "quorum", Size: 5, Each: true, Trips: 2, Nodes: 5, MaxConnections: 10_000, Schemes: []string{"quorum", "quorums"}},
	{Name: "etcd", Cores: 4, Trips: 2, Schemes: []string{"etcd", "etcds"}},
	{Name: "zk", Cores: 4, Group: "ensemble", Size: 3, Trips: 2, Schemes: []string{"zk", "zks"}},
	{Name: "postgres", Cores: 4, Trips: 2, MaxConnections: 100, Schemes: []string{"postgres", "postgresql"}},
	{Name: "mariadb", Cores: 4, Trips: 2, MaxConnections: 151, Schemes: ofMySQL},
	{Name: "mysql", Cores: 4, Trips: 2, MaxConnections: 151, Schemes: ofMySQL},
}

//go:embed units.json
var measured []byte

// Measured returns a kind of server and its units, as they were measured.
func Measured(name string) (Kind, Units, error) {
	var file struct{ Units []Units }
	if err := json.Unmarshal(measured, &file); err != nil {
		return Kind{}, Units{}, fmt.Errorf("units.json: %w", err)
	}
	var known []string
	for _, k := range Kinds {
		for _, u := range file.Units {
			if u.Server != k.Name {
				continue
			}
			if k.Name == name {
				return k, u, nil
			}
			known = append(known, k.Name)
		}
	}
	return Kind{}, Units{}, fmt.Errorf("--server %s is not known: use one of %s", name, strings.Join(known, ", "))
}
