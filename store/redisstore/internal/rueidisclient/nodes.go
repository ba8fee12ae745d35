// SPDX-License-Identifier: Apache-2.0

package rueidisclient

import (
	"context"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/rueidis"
)

// Nodes implements rediscmd.Client. Of a cluster it returns the masters.
func (a *Client) Nodes(ctx context.Context) ([]rediscmd.Node, error) {
	all := a.client.Nodes()
	if !a.cluster {
		addr := "the server"
		for addr = range all {
			break // Sentinel: the master, whichever it is now
		}
		return []rediscmd.Node{node(addr, a.client)}, nil
	}
	var nodes []rediscmd.Node
	for addr, client := range all {
		n := node(addr, client)
		replies, err := n.Ask(ctx, 1, "INFO", "replication")
		if err != nil {
			nodes = append(nodes, n) // Check will report what is wrong with it
			continue
		}
		if text, _ := replies[0].(string); !strings.Contains(text, "role:slave") {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(x, y rediscmd.Node) int { return strings.Compare(x.Addr, y.Addr) })
	return nodes, nil
}

func node(addr string, client rueidis.Client) rediscmd.Node {
	return rediscmd.Node{Addr: addr, Ask: func(ctx context.Context, n int, args ...string) ([]any, error) {
		var replies []any
		for range n {
			d, err := another(ctx, client, len(replies) == 0)
			if err != nil && len(replies) > 0 && ctx.Err() == nil {
				break // as far as they are to be had
			}
			if err != nil {
				return nil, err
			}
			defer d.discard() // held until the end, so that each is another one
			reply, err := d.conn.Do(ctx, d.conn.B().Arbitrary(args...).Build()).ToAny()
			if err != nil {
				return nil, classify(ctx, err)
			}
			replies = append(replies, reply)
		}
		return replies, nil
	}}
}

// another returns a connection to ask over: the first is waited for.
func another(ctx context.Context, client rueidis.Client, first bool) (dedicated, error) {
	if !first {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, spare)
		defer cancel()
	}
	return dedicateWithin(ctx, client)
}
