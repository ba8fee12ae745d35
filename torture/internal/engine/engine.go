// SPDX-License-Identifier: Apache-2.0

// Package engine is what the locks are kept on, one file each: which servers to
// start, which lock the clients use, and what the engine remembers when one of
// its servers forgets.
package engine

import (
	"time"

	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/fencelock/fencelock/torture/internal/server"
)

// Engine is a column of the matrix.
type Engine struct {
	Name string
	// Lock is the kind of lock that the clients use; see package lock.
	Lock string
	// Remembers is set if a server that forgets does not make the engine grant
	// what is held, so that exclusion in time must hold then too.
	Remembers bool
	// Quiet is for how long nothing is granted after a loss, in TTLs.
	Quiet int
	// Replicated is set if another server can take over while the old one still
	// serves those who have not heard of it.
	Replicated bool
	// Fair is set if turns must come in the order of asking while all is calm.
	Fair  bool
	start func(ttl time.Duration) (*Rig, error)
}

// Rig is the running servers of one cell.
type Rig struct {
	Servers []*server.Redis
	// Direct is set if clients must be given Addrs as they are, because the
	// servers tell them addresses themselves. Otherwise each client reaches each
	// server through a proxy of its own.
	Direct bool
	Addrs  []string
	// Shape is what there is to break; Clients and TTL are filled in later.
	Shape fault.Shape
	// Master returns which server grants, for engines that can change it.
	Master func() (int, error)
	stop   []func()
}

// Start starts the servers. The caller stops the rig.
func (e Engine) Start(ttl time.Duration) (*Rig, error) { return e.start(ttl) }

// Stop stops the servers.
func (r *Rig) Stop() {
	for _, s := range r.stop {
		s()
	}
	for _, s := range r.Servers {
		s.Stop()
	}
}

// All are the engines.
var All = []Engine{redisOne, redisGrace, quorumFive, sentinel, sentinelGrace}

// Named returns the engine of that name.
func Named(name string) (Engine, bool) {
	for _, e := range All {
		if e.Name == name {
			return e, true
		}
	}
	return Engine{}, false
}
