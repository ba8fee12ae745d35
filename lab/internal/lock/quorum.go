// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
)

// openQuorum uses all servers as nodes; each keeps quiet after a loss.
func openQuorum(s Spec) (Locks, error) {
	var nodes []quorum.Node
	var closers []func() error
	for i, addr := range s.Addrs {
		client := s.redis(addr)
		store, err := redisstore.New(client, &redisstore.Options{Grace: true, MaxTTL: s.MaxTTL, Warn: func(driver.Finding) {}})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, quorum.Node{Name: fmt.Sprintf("n%d", i), Store: store})
		closers = append(closers, client.Close)
	}
	store, err := quorum.New(nodes, &quorum.Options{NodeTimeout: s.TTL / 4, Alarm: func(quorum.Alarm) {}})
	if err != nil {
		return nil, err
	}
	return newOurs(s, store, fencelock.Correctness, closers...)
}
