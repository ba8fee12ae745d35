// SPDX-License-Identifier: Apache-2.0

// Package candidate has everything that is compared, by file: what the
// server can do without a lock library, the libraries of others, and ours.
//
// To add one, write a file with a Candidate and put it into All, the list.
package candidate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Candidate is one way to take turns.
type Candidate struct {
	// Name is what reports call it, such as "fencelock-rueidis".
	Name string
	// Server is what it runs on: "redis", "cluster" or "quorum" for several of those, "etcd",
	// "zk", "postgres", "mariadb", "memcached", or nothing.
	Server string
	// Bare is the candidate that does what the server does without a library,
	// through the same client; empty if it is one itself.
	Bare string
	// Settings says in words what was set, and what is the library's default.
	Settings string
	// Plain are the commands it sends outside of scripts, in lower case, one for each request.
	// The counts of the server need them: see target.Stats.Sent.
	Plain []string
	// Parts are the other commands of such a request, which has a command of Plain in it.
	Parts []string
	// Overcounted are those of Plain that its scripts call, too: the server counts them twice
	// then, to its disadvantage.
	Overcounted []string
	// Uncounted are commands it sends and its scripts call too: the server cannot
	// distinguish them, so they are left out, in its favor.
	Uncounted []string
	// Waits reports whether Do waits for a name that another holds. Without it the
	// candidate is only good for uncontended names.
	Waits bool
	// Open connects n lockers that know nothing of each other, as n processes
	// do. They share connections only where the library lets processes' worth of
	// owners share a client.
	Open func(ctx context.Context, at Place, n int) ([]Locker, error)
	// Command starts a worker of a candidate that is not Go, which speaks what
	// package worker speaks. It is nil for all others.
	Command func() ([]string, error)
}

// Place is where a candidate works.
type Place struct {
	// Addr is the address of the server.
	Addr string
	// Process counts the processes of one run from 0, Processes is how many.
	Process, Processes int
}

// Locker is a connected candidate. It is safe for concurrent use.
type Locker interface {
	// Lock takes the lock. Unless it is given back, it is kept as long as the process lives.
	Lock(ctx context.Context, name string) (Held, error)
	// Close disconnects. Locks held are left to end by themselves.
	Close()
}

// Held is a lock that was taken.
type Held interface {
	// Unlock gives the lock back. It returns when the library says that it was given back. The context
	// is that of Lock; a candidate whose lock would stay behind if it ends does not pass it on.
	Unlock(ctx context.Context) error
}

// Do takes the lock, runs section, which may be nil, and gives the lock back.
func Do(ctx context.Context, l Locker, name string, section func()) error {
	held, err := l.Lock(ctx, name)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return held.Unlock(ctx)
}

// Named returns the candidate of that name.
func Named(name string) (*Candidate, error) {
	var known []string
	for _, c := range All {
		if c.Name == name {
			return c, nil
		}
		known = append(known, c.Name)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("no candidate is called %q; there are %v", name, known)
}

// One opens a single locker.
func (c *Candidate) One(ctx context.Context, addr string) (Locker, error) {
	lockers, err := c.Open(ctx, Place{Addr: addr, Processes: 1}, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return lockers[0], nil
}

// All are the candidates.
var All = []*Candidate{
	BareRueidis, BareGoRedis, PingPong, Channel,
	FencelockRueidis, FencelockGoRedis, FencelockCluster, FencelockLinger,
	RueidislockDefault, RueidislockFast,
	RedsyncRueidis, RedsyncGoRedis, RedsyncTuned,
	Redislock, RedislockTuned,
	Redisson, RedissonFair,
	BareQuorum, FencelockQuorum, RedsyncQuorum, RedsyncFailFast,
	BareEtcd, FencelockEtcd, EtcdRecipe,
	FencelockZK, ZKLock, Curator,
	BareMemcached, FencelockMemcached, MemcachedRecipe,
	PostgresCommits, FencelockPostgres, AdvisoryLock, MariaDBCommits, FencelockMariaDB, GetLock,
	MySQLCommits, FencelockMySQL, GetLockMySQL,
}

// newRueidis is the client of every candidate that takes one, with the library's
// defaults except for what locks never use: the cache. lockers is how many share
// it; each may take some connections for itself.
func newRueidis(addr string, lockers int) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true,
		BlockingPoolSize: max(rueidis.DefaultPoolSize, 4*lockers),
	})
}

// newGoRedis is the same for go-redis.
func newGoRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}

// each is the Open of lockers that share nothing, as processes do.
func each(one func(ctx context.Context, addr string) (Locker, error)) func(context.Context, Place, int) ([]Locker, error) {
	return func(ctx context.Context, at Place, n int) ([]Locker, error) {
		lockers := make([]Locker, 0, n)
		for range n {
			l, err := one(ctx, at.Addr)
			if err != nil {
				for _, l := range lockers {
					l.Close()
				}
				return nil, err
			}
			lockers = append(lockers, l)
		}
		return lockers, nil
	}
}

// sharing makes n lockers of a client, which is closed with the last of them.
func sharing(n int, closeClient func(), one func(*shared) Locker) []Locker {
	users := &shared{users: n, close: closeClient}
	lockers := make([]Locker, n)
	for i := range lockers {
		lockers[i] = one(users)
	}
	return lockers
}

// shared closes a client when the last of its lockers is closed.
type shared struct {
	mu    sync.Mutex
	users int
	close func()
}

func (s *shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.users == 0 {
		s.close()
	}
}
