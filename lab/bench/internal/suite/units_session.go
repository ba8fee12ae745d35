// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// unitSession opens sessions and keeps them alive, as fast as the server answers.
func (e *Env) unitSession(ctx context.Context, c *candidate.Candidate, u *Units) error {
	lockers, err := e.openMany(ctx, c, unitClients)
	if err != nil {
		return err
	}
	defer closeAll(lockers)
	// So that connecting is not counted with the sessions.
	if _, err := openSessions(ctx, lockers, unitClients, nil); err != nil {
		return err
	}
	before, err := e.data(ctx)
	if err != nil {
		return err
	}
	sessions, err := openSessions(ctx, lockers, unitSessions, nil)
	if err != nil {
		return err
	}
	after, err := e.data(ctx)
	if err != nil {
		return err
	}
	u.Session = max(0, after-before) / unitSessions
	const rounds = 3
	round := func() error {
		return worker.Parallel(unitClients, unitSessions, func(i int) error {
			_, err := sessions[i].KeepAlive(ctx)
			return err
		})
	}
	if err := round(); err != nil {
		return err
	}
	bytes, err := wired(func() error {
		usec, err := e.charged(ctx, func() error {
			for range rounds {
				if err := round(); err != nil {
					return err
				}
			}
			return nil
		})
		u.KeepAlive = usec / (rounds * unitSessions)
		return err
	})
	u.Traffic.KeepAlive = bytes / (rounds * unitSessions)
	return err
}

// unitWaiting lets processes connect and do nothing, then wait for locks that stay held.
func (e *Env) unitWaiting(ctx context.Context, c *candidate.Candidate, u *Units) error {
	sockets, err := idleSockets()
	if err != nil {
		return err
	}
	empty, err := e.Server.Memory(ctx)
	if err != nil {
		return err
	}
	base, err := e.second(ctx)
	if err != nil {
		return err
	}
	u.Base = unitWaiters * base
	lockers, err := e.openMany(ctx, c, unitWaiters+1)
	if err != nil {
		return err
	}
	defer closeAll(lockers)
	for i, l := range lockers {
		if _, err := l.Lock(ctx, fmt.Sprint("unit/own/", i)); err != nil {
			return err
		}
	}
	time.Sleep(e.For) // until what connecting costs is over
	u.Traffic.Connected, err = wired(func() (err error) {
		u.Connected, err = e.second(ctx)
		return err
	})
	if err != nil {
		return err
	}
	u.Connected = max(0, u.Connected-base)
	u.Traffic.Connected /= (2 * e.For).Seconds() * unitWaiters
	claims := unitClaims
	if _, polls := e.Server.(statements); polls {
		claims = unitPolling
	}
	first, err := e.unitClaim(ctx, lockers, claims, u)
	if err != nil {
		return err
	}
	u.Process = max(0, first-empty) / (unitWaiters + 1)
	u.Connections = (u.Connections - float64(sockets)) / (unitWaiters + 1)
	return nil
}

// unitClaim lets each process wait for so many locks that the first of them holds, and returns the memory of the server while
// each waits for one lock.
func (e *Env) unitClaim(ctx context.Context, lockers []candidate.Locker, claims int, u *Units) (first float64, err error) {
	waiting, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wait := func(from, to int) error {
		for n := from; n < to; n++ {
			name := fmt.Sprint("unit/held/", n)
			if _, err := lockers[0].Lock(ctx, name); err != nil {
				return err
			}
			for _, l := range lockers[1:] {
				wg.Go(func() { _ = candidate.Do(waiting, l, name, nil) }) // ends with the context
			}
		}
		time.Sleep(e.For) // until all are queued
		return nil
	}
	if err := wait(0, 1); err != nil { // a process that waits subscribes
		return 0, err
	}
	first, err = e.Server.Memory(ctx)
	if err != nil {
		return 0, err
	}
	before, err := e.data(ctx)
	if err != nil {
		return 0, err
	}
	sockets, err := openSockets()
	if err != nil {
		return 0, err
	}
	u.Connections = float64(sockets) // of everything
	one, err := e.second(ctx)
	if err != nil {
		return 0, err
	}
	if err := wait(1, 1+claims); err != nil {
		return 0, err
	}
	all, err := e.data(ctx)
	if err != nil {
		return 0, err
	}
	with, err := e.second(ctx)
	u.Waiting, u.Claim = max(0, with-one)/float64(claims), max(0, all-before)/float64(claims*unitWaiters)
	return first, err
}

// second is the processor time that the server spends in a second on each of unitWaiters processes, in µs.
func (e *Env) second(ctx context.Context) (float64, error) {
	usec, err := e.charged(ctx, func() error { time.Sleep(2 * e.For); return nil })
	return usec / (2 * e.For).Seconds() / unitWaiters, err
}

// data is the memory of the server without buffers of connections, where it reports that.
func (e *Env) data(ctx context.Context) (float64, error) { return dataOf(ctx, e.Server) }

func dataOf(ctx context.Context, server target.Server) (float64, error) {
	if s, ok := server.(interface {
		Data(context.Context) (float64, error)
	}); ok {
		return s.Data(ctx)
	}
	return server.Memory(ctx)
}
