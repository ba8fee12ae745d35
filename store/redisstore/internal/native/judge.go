// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// oldest is the first version that names the code of an error inside a script. An
// older one makes of READONLY or OOM a script that failed, which hides that nothing
// was done. Sharded channels came with it, and a script that can
// ask for its user's permissions.
var oldest = version{7, 0}

// codes are the codes of all findings. They are stable.
var codes = []string{
	"cluster-client", "clock", "commands-forbidden", "commands-missing", "eviction", "eviction-unchecked", "grace-not-asked", "info-forbidden",
	"margin", "min-replicas", "permissions-unchecked", "proxy", "replica", "replicas-without-grace", "run-id", "scripts-restricted", "sentinel", "spare-replica", "unchecked", "unused",
	"version", "version-unchecked",
}

// clockBound is how far the clocks may be apart. No lease depends on it; tokens
// after a data loss are seeded from the server's clock.
const clockBound = 2 * time.Second

type version struct{ major, minor int }

func (v version) less(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

// String returns the version as INFO would begin it.
func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// judge returns what the facts mean. It does no I/O.
func (s *Store) judge(f facts) []driver.Finding {
	var all []driver.Finding
	add := func(severity driver.Severity, code, reason, fix string) {
		all = append(all, driver.Finding{Severity: severity, Code: code, Node: f.addr, Reason: reason, Fix: fix})
	}
	s.judgePermissions(f, add)
	switch {
	case f.info == nil && rediscmd.UnknownCommand(f.infoErr):
		// the other finding says so
	case f.info == nil:
		add(driver.Danger, "info-forbidden", "INFO is forbidden, without which the store cannot notice a restart or a failover",
			"allow it: "+s.grant())
		add(driver.Note, "unchecked", "eviction, replicas, version and proxies could not be checked without INFO", "allow INFO and check again")
	default:
		s.judgeServer(f, add)
		s.judgeMemory(f, add)
		s.judgeProxy(f, add)
	}
	if off := f.ahead.Abs() - f.trip/2; f.timeErr == nil && off > clockBound {
		direction := "ahead of"
		if f.ahead < 0 {
			direction = "behind"
		}
		add(driver.Warning, "clock", fmt.Sprintf("its clock is %v %s ours; after a data loss tokens are seeded from it, and a clock that is set back would make them fall",
			f.ahead.Abs().Round(time.Millisecond), direction), "run a time service (chrony, systemd-timesyncd) on both machines")
	}
	return all
}

type adder func(severity driver.Severity, code, reason, fix string)

func (s *Store) judgePermissions(f facts, add adder) {
	missing := f.missing
	if f.infoErr != nil && rediscmd.UnknownCommand(f.infoErr) && !slices.Contains(missing, "info") {
		missing = append(slices.Clone(missing), "info")
	}
	if len(missing) > 0 {
		add(driver.Danger, "commands-missing", "the server has no command "+strings.Join(missing, ", ")+", or has it under another name (rename-command), and the store needs it",
			"use a server that has it")
	}
	switch {
	case len(f.forbidden) > 0:
		add(driver.Danger, "commands-forbidden", "the user may not run "+strings.Join(f.forbidden, ", ")+", which the store needs",
			"allow it: "+s.grant())
	case len(f.unscripted) > 0:
		add(driver.Danger, "scripts-restricted", "scripts may not call "+strings.Join(f.unscripted, "; nor ")+", which the store needs",
			"use a server that allows it; some managed services do not")
	case f.permitsErr != nil && f.info["redis_mode"]+f.info["server_mode"] != "sentinel":
		add(driver.Note, "permissions-unchecked", fmt.Sprintf("the user's permissions could not be checked: %v", f.permitsErr),
			"if one is missing, add them all: "+s.grant())
	}
}

// judgeServer is about what kind of server it is.
func (s *Store) judgeServer(f facts, add adder) {
	text := f.info["redis_version"] // Valkey has the Redis version it is compatible with
	if v, ok := parseVersion(text); !ok {
		add(driver.Note, "version-unchecked", "INFO has no version", fmt.Sprintf("make sure that it is Redis %s or later, or Valkey", oldest))
	} else if v.less(oldest) {
		add(driver.Danger, "version", fmt.Sprintf("version %s is too old: it hides which error ended a script, so that the outcome of a call is unknown", text),
			fmt.Sprintf("upgrade the server to Redis %s or later, or Valkey", oldest))
	}
	if f.info["role"] == "slave" {
		add(driver.Danger, "replica", "it is a replica of "+f.info["master_host"]+":"+f.info["master_port"]+" and grants nothing",
			"connect to the master, or through Sentinel")
	}
	mode := f.info["redis_mode"] + f.info["server_mode"] // Redis has the first, Valkey the second
	if mode == "cluster" && !s.client.Sharded() {
		add(driver.Danger, "cluster-client", "it is part of a cluster, and the client is not one for clusters",
			"write redis-cluster:// in the URL (in Go: redis.NewClusterClient)")
	}
	if mode == "sentinel" {
		add(driver.Danger, "sentinel", "it is a Sentinel, which keeps no locks",
			"connect through it: redis-sentinel://"+f.addr+"/NAME with the name of the master (in Go: redis.NewFailoverClient)")
	}
	s.judgeReplicas(f, mode, add)
}

// replicas is a number of them in words.
func replicas(n int64) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

// judgeReplicas is about the day on which one of them takes over.
func (s *Store) judgeReplicas(f facts, mode string, add adder) {
	n := number(f.info["connected_slaves"])
	_, bound := f.info["min_slaves_good_slaves"] // INFO has it if min-replicas-to-write is set
	if bound && n == 1 {
		add(driver.Note, "spare-replica", "it has 1 replica and does not write without one (min-replicas-to-write): when that is down for a TTL, all leases are lost",
			"add a second replica")
	}
	switch {
	case n == 0:
	case !s.opts.Grace:
		add(driver.Warning, "replicas-without-grace", "it has "+replicas(n)+" and the namespace has no grace: a failover to a replica that lags can make two holders at once, and only their tokens differ",
			"add grace=true to the URL (Options{Grace: true}), or check tokens at the resource")
	case !bound && mode != "cluster": // a master of a cluster that is cut off from the others stops by itself
		add(driver.Warning, "min-replicas", "it has "+replicas(n)+" and writes without them: cut off together with a holder it would keep that lease alive without end, while a replica is promoted and grants the lock again after the grace",
			"CONFIG SET min-replicas-to-write 1, or more, but below the number of replicas (add one first if there is only 1): a master with fewer in reach then refuses all writes, so that one which is cut off stops; keep min-replicas-max-lag below down-after-milliseconds of the sentinels")
	case s.Caps().MaxTTL <= s.longestTTL():
		add(driver.Warning, "margin", fmt.Sprintf("it has %s and max_ttl is %v, not longer than the TTL: a master that was replaced must stop writing at once, or a lease that it keeps alive may overlap with the next one", replicas(n), s.Caps().MaxTTL),
			"set max_ttl in all processes to the TTL plus the time in which such a master stops (min-replicas-max-lag, or half of cluster-node-timeout), for example max_ttl=30s with a TTL of 15s")
	}
}

// longestTTL is the longest TTL of a session that was opened here. Before the first it is the default TTL of a client, if that is allowed.
func (s *Store) longestTTL() time.Duration {
	ttl := time.Duration(s.ttl.Load())
	if ttl == 0 && s.Caps().MaxTTL >= DefaultMaxTTL {
		ttl = DefaultMaxTTL
	}
	return ttl
}

// judgeMemory is about keys that vanish.
func (s *Store) judgeMemory(f facts, add adder) {
	policy, ok := f.info["maxmemory_policy"]
	switch {
	case !ok:
		add(driver.Note, "eviction-unchecked", "INFO has no maxmemory_policy, so it is unknown whether locks can be evicted",
			"make sure that maxmemory-policy is noeviction")
	case strings.HasPrefix(policy, "allkeys-") && number(f.info["maxmemory"]) > 0:
		// With grace or without: an evicted lock is granted to a second process at once, and no call tells the first one.
		add(driver.Danger, "eviction", "maxmemory-policy "+policy+" evicts any key when memory is short, and so single locks: another process is then granted the lock, and its holder is not told",
			"keep locks on a dedicated server; or CONFIG SET maxmemory-policy noeviction, if all programs on this one can bear that their writes fail when memory is full")
	case strings.HasPrefix(policy, "allkeys-"):
		add(driver.Warning, "eviction", "maxmemory-policy "+policy+" would evict any key, and with it every lock, as soon as maxmemory is set",
			"CONFIG SET maxmemory-policy noeviction")
	}
}

// judgeProxy is about something in between that is not one server.
func (s *Store) judgeProxy(f facts, add adder) {
	runs := slices.Compact(slices.Sorted(slices.Values(f.runs)))
	switch {
	case len(runs) > 1:
		add(driver.Danger, "proxy", fmt.Sprintf("%d connections to one address reached %d servers (run_id differs): something in between spreads them, and each server would grant the same lock", len(f.runs), len(runs)),
			"connect to the master directly, through Sentinel, or with a cluster client")
	case len(runs) == 0 || strings.Trim(runs[0], "0") == "":
		add(driver.Danger, "run-id", "INFO shows no run_id: a restart or a failover could not be noticed",
			"connect to the server directly, not through what hides it")
	}
}

// parseVersion reads "7.0.15".
func parseVersion(text string) (v version, ok bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return v, false
	}
	var err1, err2 error
	v.major, err1 = strconv.Atoi(parts[0])
	v.minor, err2 = strconv.Atoi(parts[1])
	return v, err1 == nil && err2 == nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
