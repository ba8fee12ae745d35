// SPDX-License-Identifier: Apache-2.0

// Package soak uses locks on real servers for a long time, under random faults, and finds
// out whether something grows: memory, goroutines, file descriptors, entries in the store.
//
// Each server has two client processes. One lives as long as the run and is measured; the other
// one is killed and replaced again and again. A run consists of rounds:
//
//	work under one fault ─▶ rest: no operation in progress ─▶ sample ─▶ work …
//
// Samples are taken at rest, so that they do not depend on what is in progress. After a
// warm-up, a slope is fitted to each series of samples; one that is significantly above 0
// and goes on is a leak. A run that seems to have one takes twice as long. At the end the
// measured client is closed and the other one killed, and nothing of them may be left in
// the store or in the process of the first.
package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/fencelock/fencelock/lab/internal/rig"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// ClientCommand is the first argument of a client process, which calls Client.
const ClientCommand = "client"

// usual are the deployments that are run unless others are named.
const usual = "redis-grace,quorum-5,etcd,postgres,sentinel-grace,zookeeper,mariadb,memcached,cluster-grace"

// Run runs the deployments that the flags choose, and keeps the results in a folder, or in that of the flag -out.
func Run(ctx context.Context, args []string, dir string) error {
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	server := fs.String("server", usual, "deployments of servers, separated by commas")
	length := fs.Duration("for", 35*time.Minute, "how long each of them is run")
	parallel := fs.Int("parallel", 2, "how many of them run side by side")
	seed := fs.Uint64("seed", 1, "seed of the faults and of the load")
	profiles := fs.String("profiles", "", "folder for profiles of the heap of the measured clients, to find out what grows")
	out := fs.String("out", dir, "folder for the results")
	if err := fs.Parse(args); err != nil {
		return err
	}
	slots := make(chan struct{}, max(1, *parallel))
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for _, name := range strings.Split(*server, ",") {
		d, ok := deployment.Named(name)
		if !ok {
			return fmt.Errorf("unknown deployment %q; the deployments are %s", name, strings.Join(names(), ", "))
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			err := soakOne(ctx, &soak{d: d, seed: *seed, length: *length, profiles: *profiles}, *out)
			if err != nil {
				mu.Lock()
				failed = append(failed, fmt.Errorf("%s: %w", d.Name, err))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// names are those of all deployments.
func names() (all []string) {
	for _, d := range deployment.All {
		all = append(all, d.Name)
	}
	slices.Sort(all)
	return all
}

// soakOne runs one deployment and writes its result.
func soakOne(ctx context.Context, s *soak, out string) error {
	r, err := s.run(ctx)
	if err != nil {
		return err
	}
	fmt.Print(r)
	return errors.Join(r.write(out), r.verdict())
}

// ttl is short, so that many sessions end in a run. No server has a longer minimum.
const ttl = 2 * time.Second

// soak is a run on one deployment.
type soak struct {
	d      deployment.Deployment
	seed   uint64
	length time.Duration
	// profiles is the folder for profiles of the heap, empty for none.
	profiles string

	rig     *deployment.Rig
	proxies []*servers.Proxy // of the measured client
	via     map[string]string
	count   counter
	lasting *rig.Child // the measured client
	mortal  *rig.Child // the other one
	lives   uint64
	began   time.Time
	result  Result
}

// run starts the servers, soaks them, and checks what is left.
func (s *soak) run(ctx context.Context) (*Result, error) {
	var err error
	s.rig, err = s.d.Start(ttl, fault.Wants{})
	if err != nil {
		return nil, err
	}
	defer s.rig.Stop()
	s.count, err = counterOf(s.d, s.rig)
	if err != nil {
		return nil, err
	}
	s.via = map[string]string{}
	for _, addr := range s.rig.Reach {
		p, err := servers.NewProxy(addr)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		s.proxies, s.via[addr] = append(s.proxies, p), p.Addr
	}
	s.result = Result{Server: s.d.Name, Seed: s.seed, Began: time.Now().UTC().Truncate(time.Second), Faults: map[string]int{}}
	base, err := s.tidied(ctx)
	if err != nil {
		return nil, fmt.Errorf("before any fault: %w", err)
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.result.Base.Entries = base
	err = s.rounds(ctx)
	return &s.result, errors.Join(err, s.end())
}

// spec is how a client reaches the servers.
func (s *soak) spec(who string, via map[string]string) lock.Spec {
	return lock.Spec{Kind: s.d.Lock, Addrs: s.rig.Addrs, Via: via, Who: who, TTL: ttl, MaxTTL: ttl}
}

// begin starts both clients.
func (s *soak) begin() error {
	var first Report
	var err error
	cfg := Config{Spec: s.spec("stays", s.via), Seed: s.seed, Workers: 4, Fresh: s.fresh(), Lasting: lasting}
	if s.profiles != "" {
		cfg.Profiles = filepath.Join(s.profiles, s.d.Name)
	}
	s.lasting, first, err = start(cfg)
	if err != nil {
		return err
	}
	s.result.Base = first.Sample
	s.mortal, err = s.client("goes", 2, lasting)
	return err
}

// fresh is how many names there are that are mostly used once. An item of memcached stays until its name is
// used again, if the process that has it dies: see docs/memcached.md. A store on SQL remembers up to 10,000 names, for a
// hint, and would grow for an hour; so most of its names are used before the warm-up ends. Its own tests hold the bound.
func (s *soak) fresh() int {
	switch s.d.Lock {
	case "memcached":
		return fewNames
	case "postgres", "pgbouncer", "postgres-pair", "mariadb", "mysql":
		return hintedNames
	}
	return 1 << 40
}

const (
	fewNames    = 20
	hintedNames = 300
)

// client starts a client that is not measured and whose network is good.
func (s *soak) client(who string, workers, lasting int) (*rig.Child, error) {
	s.lives++
	c, _, err := start(Config{Spec: s.spec(who, nil), Seed: s.seed<<20 + s.lives, Workers: workers, Fresh: s.fresh(), Lasting: lasting})
	return c, err
}

// The times of a round: work before and after a fault.
const (
	before = 1500 * time.Millisecond
	after  = 2 * ttl
)

// rounds has one fault and one sample in each round.
func (s *soak) rounds(ctx context.Context) error {
	name := fnv.New64a()
	_, _ = name.Write([]byte(s.d.Name))
	rng := rand.New(rand.NewPCG(s.seed, name.Sum64()))
	s.began = time.Now()
	return s.result.prolong(s.length, func(until time.Duration) error {
		for time.Since(s.began) < until && ctx.Err() == nil {
			if err := s.round(ctx, rng); err != nil {
				return err
			}
		}
		s.result.Seconds = time.Since(s.began).Seconds()
		return ctx.Err()
	})
}

func (s *soak) round(ctx context.Context, rng *rand.Rand) error {
	pause(ctx, before)
	m := choose(rng, s.d, ttl)
	s.result.Faults[string(m.harm)]++
	if err := s.do(ctx, m); err != nil {
		return fmt.Errorf("%s: %w", m.harm, err)
	}
	pause(ctx, after)
	return s.sample(ctx)
}

// reportWithin is how long a client may take to come to rest.
const reportWithin = time.Minute

// sample takes a sample. A store that cannot be counted, because servers still elect one of them, costs a
// sample and not the run; a client that does not come to rest is an error.
func (s *soak) sample(ctx context.Context) error {
	var r Report
	err := s.lasting.Ask("rest", &r, reportWithin)
	if err != nil {
		return err
	}
	s.result.Tally = r.Tally
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	entries, err := s.count(ctx)
	r.Sample.Second, r.Sample.Entries = time.Since(s.began).Seconds(), entries
	if err != nil || r.Held < lasting {
		s.result.Missed++
		fmt.Printf("%s: no sample at second %.0f: %d of %d leases held, %s; count: %v\n", s.d.Name, r.Sample.Second, r.Held, lasting, r.Tally.Last, err)
		return nil
	}
	s.result.Samples = append(s.result.Samples, r.Sample)
	return nil
}

// end closes the clients and finds out what is left.
func (s *soak) end() error {
	r, err := finish(s.lasting, reportWithin+restsWithin)
	if err != nil {
		return err
	}
	s.result.Tally, s.result.Left = r.Tally, r.Sample
	if r.Stacks != "" {
		fmt.Printf("%s: goroutines that are left:\n%s\n", s.d.Name, r.Stacks)
	}
	s.mortal.Kill() // what it leaves must go, too
	if err := s.sweep(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	s.result.Left.Entries, err = leftover(ctx, s.result.Base.Entries, s.tidied, 5*time.Second)
	return err
}

// sweep has Redis sweep all locks: a name that was put back after a loss, and locked again in its grace period, keeps a field
// until a sweep of its bucket finds it free. A bucket is swept when a session in it has ended without being closed. So a client
// dies that has locks everywhere.
func (s *soak) sweep() error {
	if _, ok := s.rig.Servers[0].(*server.Redis); !ok {
		return nil
	}
	many := s.everywhere()
	last, err := s.client("dies", 0, many)
	if err != nil {
		return err
	}
	defer last.Kill()
	var r Report
	if err := last.Ask("rest", &r, reportWithin); err != nil {
		return err
	}
	if r.Held < many {
		return fmt.Errorf("the last client has %d of %d leases: %s", r.Held, many, r.Tally.Last)
	}
	return nil
}

// everywhere is so many locks that some are in each bucket of the store: a cluster of Redis has 32, and who has no lock in
// one does not sweep it.
func (s *soak) everywhere() int {
	if strings.HasPrefix(s.d.Lock, "cluster") {
		return 400 // none in one of them: once in 10,000 runs
	}
	return 1
}

// leftover counts until no more entries are left than there were at first, or until the context ends, and returns the
// last count that succeeded. A store that could not be counted is an error: nothing is known of it.
func leftover(ctx context.Context, base int64, count counter, every time.Duration) (left int64, err error) {
	for counted := false; ; pause(ctx, every) {
		n, failed := count(ctx)
		if failed == nil {
			left, counted = n, true
		}
		switch {
		case failed == nil && left <= base:
			return left, nil
		case ctx.Err() != nil && !counted:
			return 0, fmt.Errorf("what is left in the store could not be counted: %w", failed)
		case ctx.Err() != nil:
			return left, nil
		}
	}
}

// tidied counts what is left after a client has used and released the common names: what dead clients
// leave is removed by live ones, the claims of a lock by who wants it and the rest by a sweep.
func (s *soak) tidied(ctx context.Context) (int64, error) {
	locks, err := lock.Open(s.spec("tidies", nil))
	if err != nil {
		return 0, err
	}
	names := commonNames("stays", "goes")
	if s.d.Lock == "memcached" {
		for _, who := range []string{"stays", "goes"} {
			for i := range fewNames {
				names = append(names, fmt.Sprintf("fresh-%s-%d", who, i))
			}
		}
	}
	for _, name := range names {
		held, failed := locks.Lock(ctx, name)
		if failed == nil {
			failed = held.Unlock(ctx)
		}
		err = errors.Join(err, failed)
	}
	var tidy []lock.Held
	for i := range s.everywhere() {
		held, failed := locks.Lock(ctx, fmt.Sprint("tidy-", i))
		if err = errors.Join(err, failed); failed == nil {
			tidy = append(tidy, held)
		}
	}
	pause(ctx, 4*ttl) // a session of Redis sweeps with every eighth keep-alive
	for _, held := range tidy {
		err = errors.Join(err, held.Unlock(ctx))
	}
	err = errors.Join(err, locks.Close(ctx))
	if err != nil {
		return 0, err
	}
	return s.count(ctx)
}

// start starts a client process and waits for its first report.
func start(cfg Config) (*rig.Child, Report, error) {
	c, err := rig.Start(context.Background(), rig.Command{Name: "client " + cfg.Spec.Who, Args: []string{ClientCommand}})
	if err != nil {
		return nil, Report{}, err
	}
	var first Report
	err = c.Ask(cfg, &first, time.Minute)
	return c, first, err
}

// finish lets a client close everything and returns its last report.
func finish(c *rig.Child, most time.Duration) (r Report, err error) {
	c.CloseInput()
	for err == nil && !r.Over {
		r = Report{}
		err = c.Next(&r, most)
	}
	return r, err
}
