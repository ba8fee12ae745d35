// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// redisOne is one server without grace: a data loss may make a second
// holder, with a greater token.
var redisOne = Deployment{Name: "redis", Lock: "redis", Fair: true, Lingers: true, Shape: fault.Shape{Servers: 1}, Can: ofRedis, start: startOne}

// redisGrace is one server that grants nothing for a TTL after a loss.
var redisGrace = Deployment{Name: "redis-grace", Lock: "redis-grace", Fair: true, Lingers: true, SurvivesDataLoss: true, Quiet: 1,
	Shape: fault.Shape{Servers: 1}, Can: ofRedis, start: startOne}

func startOne(_ time.Duration, w fault.Wants) (*Rig, error) {
	s, err := server.StartRedis(w)
	if err != nil {
		return nil, err
	}
	return &Rig{Servers: []server.Server{s}, Addrs: []string{s.Addr}}, nil
}

// sentinel is a master with two replicas and three sentinels. What the master
// acknowledged last may not be on the replica that takes over.
var sentinel = Deployment{Name: "sentinel", Lock: "sentinel", Fair: true, Lingers: true, Replicated: true, Splits: deadToSentinel,
	Shape: fault.Shape{Servers: 3, Replicated: true}, Can: append([]fault.Verb{fault.Failover}, ofRedis...), start: startSentinel}

// sentinelGrace grants nothing for a TTL after another server took over.
var sentinelGrace = Deployment{Name: "sentinel-grace", Lock: "sentinel-grace", Fair: true, Lingers: true, Replicated: true, SurvivesDataLoss: true, Quiet: 1, Splits: deadToSentinel,
	Shape: fault.Shape{Servers: 3, Replicated: true}, Can: append([]fault.Verb{fault.Failover}, ofRedis...), start: startSentinel}

// deadToSentinel are the faults in which a sentinel takes a master for dead that
// still serves. One whose disk is full answers PING with MISCONF; a sentinel takes
// only PONG, LOADING and MASTERDOWN for a sign of life.
var deadToSentinel = []string{"disk-full"}

func startSentinel(ttl time.Duration, w fault.Wants) (*Rig, error) {
	r := &Rig{}
	var args []string
	var nodes []*server.Redis
	for i := range 3 {
		s, err := server.StartRedis(w, append(args, "--repl-diskless-sync-delay", "0")...)
		if err != nil {
			return r, err
		}
		if i == 0 {
			args = []string{"--replicaof", "127.0.0.1", strconv.Itoa(s.Port)}
		}
		nodes = append(nodes, s)
		r.Servers, r.Reach = append(r.Servers, s), append(r.Reach, s.Addr)
	}
	for range 3 {
		s, err := server.StartSentinel(lock.MasterName, nodes[0], ttl*7/10)
		if s != nil {
			r.stop = append(r.stop, s.Stop)
		}
		if err != nil {
			return r, err
		}
		r.Addrs, r.Reach = append(r.Addrs, s.Addr), append(r.Reach, s.Addr)
	}
	r.Master = func() (int, error) { return r.master(r.Addrs[0]) }
	r.Reign = func() (string, error) { return r.reign(r.Addrs[0]) }
	r.Failover = func(ctx context.Context) error {
		c := redis.NewSentinelClient(&redis.Options{Addr: r.Addrs[0], DisableIdentity: true})
		defer c.Close()
		return c.Failover(ctx, lock.MasterName).Err()
	}
	return r, servers.AwaitSentinels(lock.MasterName, r.Addrs, 2)
}

// reign asks a sentinel for the master and the number of its takeover.
func (r *Rig) reign(addr string) (string, error) {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer c.Close()
	m, err := c.Master(context.Background(), lock.MasterName).Result()
	return m["port"] + " since takeover " + m["config-epoch"], err
}

// master asks a sentinel which server is the master.
func (r *Rig) master(addr string) (int, error) {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer c.Close()
	at, err := c.GetMasterAddrByName(context.Background(), lock.MasterName).Result()
	if err != nil {
		return 0, err
	}
	for i, s := range r.Servers {
		if len(at) == 2 && at[1] == strconv.Itoa(s.(*server.Redis).Port) {
			return i, nil
		}
	}
	return 0, errors.New("the sentinels report a master that the suite did not start")
}

// quorumFive is five servers that know nothing of each other; three of them
// decide. A fault of servers is one of a minority.
var quorumFive = Deployment{Name: "quorum-5", Lock: "quorum", SurvivesDataLoss: true, Quiet: 1,
	Shape: fault.Shape{Servers: 5, Votes: true}, Can: ofRedis, start: startFive}

func startFive(_ time.Duration, w fault.Wants) (*Rig, error) {
	r := &Rig{}
	for range 5 {
		s, err := server.StartRedis(w)
		if err != nil {
			return r, err
		}
		r.Servers, r.Addrs = append(r.Servers, s), append(r.Addrs, s.Addr)
	}
	return r, nil
}
