// SPDX-License-Identifier: Apache-2.0

// Package runs lists what is run before a release, and which code each run measures: lab/repo/evidence runs it, and
// lab/repo/releasecheck finds what is older than the code.
package runs

// Run is something to be run before a release.
type Run struct {
	Name    string
	Command string
	// Measures are the folders whose change makes a result older; that of the root module and of driver always does.
	Measures []string
}

// OnServers are the stores that lab/results/versions.md shows on every version of their servers. The smoke test of its last
// column uses the quorum, too.
var OnServers = []string{redis, "store/etcdstore", "store/zkstore", "store/memcachestore", databases}

// Quorum is the store that a quorum uses.
const Quorum = quorum

// target is a run of a target of the Makefile.
func target(name string, measures ...string) Run { return Run{name, "make -s " + name, measures} }

// suite is a run of all benchmarks of one server, through one store.
func suite(name string, stores ...string) Run {
	return Run{"bench-" + name, "go run ./lab/bench -suite " + name, append([]string{"lab/bench"}, stores...)}
}

// Most runs use few of the stores, and all others use all.
const (
	stores    = "store"
	redis     = "store/redisstore"
	quorum    = "store/quorum"
	databases = "store/sqlstore"
)

// All are in the order of what they tell in a minute: if there is no time for all, the last ones are missing.
var All = []Run{
	target("figures-house"), target("figures-api"), target("figures-docs"),
	target("figures-core", stores, "lab/bench"), target("figures-redis", redis, "lab/bench"),
	target("figures-stores", "store/etcdstore", databases, "store/zkstore", "lab/bench"),
	target("figures-linger", redis, "lab/bench"), target("figures-quorum", quorum, redis), target("figures-grace", redis, databases, "store/both"),
	target("figures-cli", redis, "cmd"), target("figures-serve", redis, "cmd"), target("figures-vet", "vet"),
	{"torture-redis", "make -s torture PART=redis", []string{redis, quorum, "lab/torture"}},
	{"torture-others", "make -s torture PART=others", []string{"store/etcdstore", databases, "store/zkstore", "store/memcachestore", "lab/torture"}},
	target("torture-lossy", stores, "lab/torture"), target("torture-linger", stores, "lab/torture"), target("torture-broken", "lab/torture"),
	target("figures-fence", redis, databases, "store/memstore", "fence"), target("figures-track", stores), target("figures-redis-tests", redis), target("figures-redis-long", redis, "lab/bench"),
	target("interop", redis, "store/etcdstore", "store/zkstore", "lab/interop"), target("events", redis, "lab/load/internal/event", "lab/load/internal/results"), target("figures-adapters", redis, databases, "store/memstore", "adapters"),
	target("race-redis", redis), target("race", stores),
	{"fuzz", "make -s fuzz FUZZTIME=20s", []string{"store/etcdstore", "store/faultstore", "store/memcachestore", redis, databases, "store/zkstore", "fence/httpfence", "cmd/fencelock/internal"}},
	target("million", "store/memstore"), target("model", quorum), target("model-redis", redis),
	target("figures-interop", redis, "store/etcdstore", "store/zkstore", "lab/interop"), target("scale", stores, "lab/bench"),
	{"soak", "make -s soak", append([]string{"lab/load/internal/soak", "lab/load/internal/results"}, OnServers...)}, // and that of a quorum, which needs its own code, too:
	{"soak-quorum", "make -s soak SERVER=quorum-5", []string{redis, quorum, "lab/load/internal/soak", "lab/load/internal/results"}},
	suite("redis", redis), suite("quorum", quorum, redis), suite("etcd", "store/etcdstore"), suite("zk", "store/zkstore"),
	suite("postgres", databases), suite("mariadb", databases), suite("memcached", "store/memcachestore"),
	target("torture-peers", "lab/torture"), target("figures-scale", stores, "lab/load"), {"compat", "make -s compat COMPAT=-missing", []string{stores}},
}
