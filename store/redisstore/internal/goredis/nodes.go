// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/go-redis/v9"
)

// Nodes implements rediscmd.Client.
func (g *Client) Nodes(ctx context.Context) ([]rediscmd.Node, error) {
	switch c := g.client.(type) {
	case *redis.Client:
		n := nodeOf(c)
		if n.Addr == "FailoverClient" { // go-redis gives it no address
			n.Addr = "the master that Sentinel names"
			if g.master != "" {
				n.Addr = "master " + g.master
			}
		}
		return []rediscmd.Node{n}, nil
	case *redis.ClusterClient:
		var mu sync.Mutex
		var nodes []rediscmd.Node
		err := c.ForEachMaster(ctx, func(_ context.Context, n *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, nodeOf(n))
			return nil
		})
		return nodes, Classify(ctx, err)
	}
	// The caller's own kind of client: it cannot be asked for its connections.
	return []rediscmd.Node{{Addr: "the server", Ask: func(ctx context.Context, _ int, args ...string) ([]any, error) {
		reply, err := g.client.Do(ctx, words(args)...).Result()
		return []any{reply}, Classify(ctx, err)
	}}}, nil
}

func nodeOf(c *redis.Client) rediscmd.Node {
	return rediscmd.Node{Addr: c.Options().Addr, Ask: func(ctx context.Context, n int, args ...string) ([]any, error) {
		if size := c.Options().PoolSize; size > 0 {
			n = max(1, min(n, size/2)) // leaves connections for the caller's own calls
		}
		var replies []any
		for range n {
			conn := c.Conn() // held until the end, so that each is another one
			defer conn.Close()
			reply, err := conn.Do(ctx, words(args)...).Result()
			if err != nil {
				return nil, Classify(ctx, err)
			}
			replies = append(replies, reply)
		}
		return replies, nil
	}}
}

func words(args []string) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
	}
	return all
}
