// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/quorum"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/redis/go-redis/v9"
)

var _ = register(&engine{
	schemes: []string{"quorum", "quorums"},
	form:    "quorum://[user[:password]@]host[:port],host[:port],host[:port][,...][/database]",
	note: "several Redis servers that know nothing of each other, a majority decides; name them\n" +
		"      alike everywhere; use it with grace=true; with quorums over TLS",
	open: openQuorum,
})

// openQuorum makes a store of each server. It asks none: some may be down.
func openQuorum(_ context.Context, url string, s settings) (*opened, error) {
	nodes, err := quorumNodes(url)
	if err != nil {
		return nil, err
	}
	o := &opened{graceFix: addGrace}
	var members []quorum.Node
	var clients []*redis.Client
	checks := map[string]func(context.Context) ([]driver.Finding, error){}
	o.check = func(ctx context.Context) ([]driver.Finding, error) { return checkMembers(ctx, checks), nil }
	o.close = func() error {
		var errs []error
		for _, c := range clients {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	for _, n := range nodes {
		client := redis.NewClient(n.options)
		clients = append(clients, client)
		store, err := redisstore.New(client, s.redis())
		if err != nil {
			return nil, errors.Join(err, o.close())
		}
		members = append(members, quorum.Node{Name: n.name, Store: store})
		checks[n.name] = store.Check
	}
	store, err := quorum.New(members, &quorum.Options{Alarm: func(a quorum.Alarm) { s.warn(fmt.Sprintf("server %s: %s", a.Node, a.Kind)) }})
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	o.Store = store
	return o, nil
}

// checkMembers asks every server. One that does not answer is a finding: as long as a
// majority does, locks work.
func checkMembers(ctx context.Context, checks map[string]func(context.Context) ([]driver.Finding, error)) []driver.Finding {
	names := slices.Sorted(maps.Keys(checks))
	found, errs := make([][]driver.Finding, len(names)), make([]error, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { found[i], errs[i] = checks[name](ctx) })
	}
	asking.Wait()
	down := 0
	for _, err := range errs {
		if err != nil {
			down++
		}
	}
	for i, name := range names {
		if errs[i] == nil {
			continue
		}
		f := driver.Finding{Severity: driver.Warning, Code: "unreachable", Node: name, Reason: fmt.Sprintf("%d of %d servers do not answer; locks work while a majority does: %v", down, len(names), errs[i]),
			Fix: "start it"}
		if 2*down >= len(names) {
			f.Severity = driver.Danger
		}
		found[i] = append(found[i], f)
	}
	return slices.Concat(found...)
}

type quorumNode struct {
	name    string
	options *redis.Options
}

// quorumNodes reads the servers of a URL. No error shows it: it may hold a password.
func quorumNodes(url string) ([]quorumNode, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	if strings.Contains(rest, "?") {
		return nil, usage("a quorum takes no parameters but namespace, grace, max_ttl, buckets and accept")
	}
	user, hosts := "", rest
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, hosts = rest[:at+1], rest[at+1:]
	}
	hosts, path, _ := strings.Cut(hosts, "/")
	single := map[string]string{"quorum": "redis", "quorums": "rediss"}[scheme]
	var nodes []quorumNode
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		options, err := redis.ParseURL(single + "://" + user + host + "/" + path)
		if err != nil {
			return nil, usage("the quorum's URL is not quorum://user:password@host:port,host:port,host:port/database")
		}
		options.ContextTimeoutEnabled = true
		nodes = append(nodes, quorumNode{host, options})
	}
	return nodes, nil
}
