// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/fencelock/fencelock/lab/internal/rig"
	"github.com/fencelock/fencelock/lab/torture/internal/client"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// slot is one client and those that follow it when it is killed.
type slot struct {
	mu      sync.Mutex // held while the child is replaced
	i       int
	proxies []*servers.Proxy
	child   *rig.Child
	who     atomic.Value // name of the child, for those without the mutex
	lives   int
	asked   atomic.Bool
	granted atomic.Int64 // when the lock was granted last
}

// startClient starts the process of a slot; the caller has its mutex or is alone.
func (r *run) startClient(s *slot) error {
	who := fmt.Sprintf("c%d", s.i)
	if s.lives > 0 {
		who = fmt.Sprintf("c%d.%d", s.i, s.lives)
	}
	via := map[string]string{}
	for i, p := range s.proxies {
		via[r.rig.Reach[i]] = p.Addr
	}
	by, resource := servers.Start, r.resAddr
	if r.network != nil {
		by, resource = r.network.Start, r.way.Addr
	}
	var names []string
	for i := range r.c.Locks {
		names = append(names, lockName(i))
	}
	cfg := client.Config{
		Spec:     lock.Spec{Kind: r.c.Lock, Addrs: r.rig.Addrs, Via: via, Who: who, TTL: r.c.TTL, MaxTTL: r.c.TTL},
		Resource: "http://" + resource, Names: names, Seed: r.c.Seed*1000 + uint64(s.i*10+s.lives), Long: r.c.Long,
	}
	if r.c.Linger {
		cfg.Spec.Linger, cfg.Home = r.c.TTL/2, s.i
	}
	s.lives++
	next, err := start(by, who, []string{"client"}, cfg, func(e history.Event) {
		switch e.Kind {
		case history.Ask:
			s.asked.Store(true)
		case history.Grant:
			s.granted.Store(e.At)
		}
		r.add(e)
	})
	if next == nil {
		return err // the slot keeps the one before, which is over, and is not served
	}
	s.child = next
	s.who.Store(who)
	return err
}

func lockName(i int) string {
	if i == 0 {
		return lock.LockName
	}
	return fmt.Sprintf("l%d", i)
}

// start starts a process of the suite, by a function, with a first line of input, and passes on its events: it writes
// its history to its standard output and ends when its standard input does.
func start(by func(*exec.Cmd) error, who string, args []string, first any, add func(history.Event)) (*rig.Child, error) {
	c, err := rig.Start(context.Background(), rig.Command{
		Name: who, Args: args, Start: by, Read: func(out io.Reader) error { return history.Read(out, add) },
	})
	if err != nil {
		return nil, err
	}
	return c, c.Send(first)
}
