// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock/redisstore/internal/face"
	"github.com/redis/go-redis/v9"
)

// Nodes implements face.Client.
func (g *goRedis) Nodes(ctx context.Context) ([]face.Node, error) {
	switch c := g.client.(type) {
	case *redis.Client:
		return []face.Node{goRedisNode(c)}, nil
	case *redis.ClusterClient:
		var mu sync.Mutex
		var nodes []face.Node
		err := c.ForEachMaster(ctx, func(_ context.Context, n *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, goRedisNode(n))
			return nil
		})
		return nodes, classify(ctx, err)
	}
	// Somebody's own kind of client: it cannot be asked for its connections.
	return []face.Node{{Addr: "the server", Ask: func(ctx context.Context, _ int, args ...string) ([]any, error) {
		reply, err := g.client.Do(ctx, words(args)...).Result()
		return []any{reply}, classify(ctx, err)
	}}}, nil
}

func goRedisNode(c *redis.Client) face.Node {
	return face.Node{Addr: c.Options().Addr, Ask: func(ctx context.Context, n int, args ...string) ([]any, error) {
		if size := c.Options().PoolSize; size > 0 {
			n = max(1, min(n, size/2)) // the caller's own calls go on meanwhile
		}
		var replies []any
		for range n {
			conn := c.Conn() // held until the end, so that each is another one
			defer conn.Close()
			reply, err := conn.Do(ctx, words(args)...).Result()
			if err != nil {
				return nil, classify(ctx, err)
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
