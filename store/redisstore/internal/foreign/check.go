// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// Check asks the servers and returns what makes them a worse place for locks.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	found, _, err := CheckRuns(ctx, s)
	return found, err
}

// CheckRuns is Check, and returns the run_id of each server that answered, by its address.
func CheckRuns(ctx context.Context, s *Store) (found []driver.Finding, runs map[string]string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, s.errorf("check: %w", err)
	}
	nodes, err := s.client.Nodes(ctx)
	if err != nil {
		return nil, nil, s.errorf("check: find the servers: %w", err)
	}
	found = []driver.Finding{{Severity: driver.Note, Code: "efficiency-only",
		Reason: "locks in this format survive no failover, and other libraries take no token", Fix: s.opts.Advice}}
	var failed error
	runs = map[string]string{}
	for _, node := range nodes {
		replies, err := rediscmd.Within(ctx, func() ([]any, error) { return node.Ask(ctx, 1, "INFO") })
		if err != nil {
			failed = s.errorf("check: %s: %w", node.Addr, err)
			continue
		}
		text, _ := replies[0].(string)
		found = append(found, judge(node.Addr, text, s.client.Sharded())...)
		_, run, _ := strings.Cut(text, "\nrun_id:")
		runs[node.Addr], _, _ = strings.Cut(run, "\r")
	}
	return found, runs, failed
}

// judge returns what INFO of a server means for locks. It does no I/O.
func judge(addr, info string, cluster bool) (found []driver.Finding) {
	add := func(severity driver.Severity, code, reason, fix string) {
		found = append(found, driver.Finding{Severity: severity, Code: code, Node: addr, Reason: reason, Fix: fix})
	}
	has := func(line string) bool { return strings.Contains(info, "\n"+line) }
	if has("role:slave") {
		add(driver.Danger, "replica", "it is a replica and grants nothing", "connect to the master, or through Sentinel")
	}
	if has("connected_slaves:") && !has("connected_slaves:0\r") {
		add(driver.Warning, "failover", "it has replicas: a failover to one that lags can make two holders at once", "keep locks that must survive a failover in fencelock's own format with grace=true (Options{Grace: true} of redisstore)")
	}
	if has("maxmemory_policy:") && !has("maxmemory_policy:noeviction") {
		add(driver.Warning, "eviction", "a lock has a time to live, and the policy evicts such keys when memory is short", "CONFIG SET maxmemory-policy noeviction, or keep locks on a dedicated server")
	}
	if !cluster && (has("redis_mode:cluster") || has("server_mode:cluster")) {
		add(driver.Danger, "cluster-client", "it is part of a cluster, and the client is not one for clusters", "use redis.NewClusterClient")
	}
	return found
}
