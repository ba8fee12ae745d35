// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// harm is a kind of fault of a soak.
type harm string

const (
	killClient   harm = "a client is killed and replaced"
	pauseClient  harm = "the measured client is paused"
	cutClient    harm = "the connections of the measured client are closed"
	blackHole    harm = "the network of the measured client is a black hole"
	pauseServer  harm = "a server is paused"
	killServer   harm = "a server is killed and started again"
	failover     harm = "another server takes over"
	flushScripts harm = "the scripts of a server are removed"
	none         harm = "no fault"
)

// misfortune is one fault.
type misfortune struct {
	harm   harm
	server int
	length time.Duration
}

// choose draws a fault that the deployment has. It is a pure function of the random numbers.
func choose(rng *rand.Rand, d deployment.Deployment, ttl time.Duration) misfortune {
	m := misfortune{harm: draw(rng), server: rng.IntN(d.Shape.Servers)}
	// Up to two and a half TTLs: some sessions survive a fault, others end.
	m.length = time.Duration((0.2 + 2.3*rng.Float64()) * float64(ttl))
	if m.harm == pauseServer || m.harm == killServer {
		m.length /= 2
	}
	if (m.harm == failover || m.harm == flushScripts || m.harm == killServer) && !able(d, m.harm) {
		m.harm = cutClient
	}
	return m
}

// able reports whether a fault that not every deployment has is one of this.
func able(d deployment.Deployment, h harm) bool {
	switch h {
	case failover:
		return d.Unfit(fault.Step{Verb: fault.Failover}) == ""
	case flushScripts:
		return d.Unfit(fault.Step{Verb: fault.FlushScripts}) == ""
	}
	return d.Lock != "memcached" // it does not keep its data
}

// weights are how many of a hundred faults are of a kind.
var weights = []struct {
	harm   harm
	weight int
}{{killClient, 30}, {pauseClient, 12}, {cutClient, 12}, {blackHole, 16}, {pauseServer, 8}, {killServer, 8}, {failover, 4}, {flushScripts, 5}, {none, 5}}

func draw(rng *rand.Rand) harm {
	n := rng.IntN(100)
	for _, w := range weights {
		if n < w.weight {
			return w.harm
		}
		n -= w.weight
	}
	return none
}

// do carries a fault out, and returns when it is over.
func (s *soak) do(ctx context.Context, m misfortune) error {
	switch m.harm {
	case killClient:
		s.mortal.Kill()
		var err error
		s.mortal, err = s.client("goes", 2, lasting)
		return err
	case pauseClient:
		s.lasting.Signal(syscall.SIGSTOP)
		pause(ctx, m.length)
		s.lasting.Signal(syscall.SIGCONT)
	case cutClient:
		for _, p := range s.proxies {
			p.Cut()
		}
	case blackHole:
		s.network(servers.State{DropRequests: true, DropReplies: true})
		pause(ctx, m.length)
		s.network(servers.State{})
	case pauseServer:
		if err := s.rig.Servers[m.server].Pause(); err != nil {
			return err
		}
		pause(ctx, m.length)
		return s.rig.Servers[m.server].Resume()
	case killServer:
		s.rig.Servers[m.server].Kill()
		pause(ctx, m.length)
		return s.rig.Servers[m.server].Start()
	case failover:
		// Servers that are busy with the fault before refuse to; the next one comes.
		if err := s.rig.Failover(ctx); err != nil {
			fmt.Printf("%s: %v\n", s.d.Name, err)
		}
	case flushScripts:
		c, ok := s.rig.Servers[m.server].(server.Commander)
		if !ok {
			return errors.New("this server has no scripts")
		}
		return c.Do(ctx, fault.FlushScripts)
	}
	return nil
}

// network changes the network of the measured client.
func (s *soak) network(state servers.State) {
	for _, p := range s.proxies {
		p.Set(state)
	}
}
