// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/stat"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
	"github.com/fencelock/fencelock/store/redisstore"
)

// The cases of MoveSlots.
const (
	BeforeMove  = "before"
	WhileMoving = "while slots are moved"
)

const (
	// moveClients is how many clients lock and unlock, each with this pause.
	moveClients = 8
	movePause   = 5 * time.Millisecond
	// probePause is how often it is tried whether a server answers.
	probePause = time.Millisecond
)

// MoveSlots moves all slots with locks from the fullest master of a cluster to another,
// while clients lock and unlock: for how long a master does not answer. buckets is that of
// redisstore.Options.
func (e *Env) MoveSlots(ctx context.Context, locks, buckets int) (Cells, error) {
	server, err := target.StartCluster(ctx)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	cluster := server.(*target.RedisCluster)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	defer client.Close()
	// There is no failover here, and no warning is needed.
	store, err := redisstore.New(client, &redisstore.Options{Buckets: buckets, Accept: []string{"replicas-without-grace"}})
	if err != nil {
		return nil, err
	}
	lockers, err := candidate.OnStore(store, moveClients)
	if err != nil {
		return nil, err
	}
	defer closeAll(lockers)
	e.Progress("%s on a cluster: taking them", LocksHeld(locks))
	if err := failure(worker.Run(ctx, lockers, worker.Task{Name: holdName, Hold: locks}, 0)); err != nil {
		return nil, err
	}
	before, err := e.moving(ctx, cluster, lockers, func() error { time.Sleep(e.For); return nil })
	if err != nil {
		return nil, err
	}
	moving, err := e.moving(ctx, cluster, lockers, func() error { return e.move(ctx, cluster) })
	if err != nil {
		return nil, err
	}
	name := candidate.FencelockGoRedis.Name
	return Cells{{Case: BeforeMove, Candidate: name, Samples: []Sample{before}}, {Case: WhileMoving, Candidate: name, Samples: []Sample{moving}}}, nil
}

// move moves the slots.
func (e *Env) move(ctx context.Context, cluster *target.RedisCluster) error {
	from := cluster.Fullest()
	to := (from + 1) % cluster.Masters()
	used, err := cluster.UsedSlots(ctx, from)
	if err != nil {
		return err
	}
	e.Progress("moving %d slots", len(used))
	for i, slot := range used {
		if err := cluster.MoveSlot(ctx, slot, from, to); err != nil {
			return err
		}
		if (i+1)%100 == 0 {
			e.Progress("%d of %d slots are moved", i+1, len(used))
		}
	}
	return nil
}

// moving probes the masters and lets clients lock and unlock while work is done.
func (e *Env) moving(ctx context.Context, cluster *target.RedisCluster, lockers []candidate.Locker, work func() error) (Sample, error) {
	working, done := context.WithCancel(ctx)
	defer done()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16)) // so that those who probe never wait for a goroutine
	silent := make([]time.Duration, cluster.Masters())
	errs := make([]error, len(silent))
	var wg sync.WaitGroup
	for i, n := range cluster.Nodes[:len(silent)] {
		wg.Go(func() { silent[i], errs[i] = silence(working, n.Addr) })
	}
	var results []*worker.Result
	wg.Go(func() {
		task := worker.Task{Name: "moving", Own: true, Goroutines: 1, Tolerant: true, Pause: movePause, For: besideSlice}
		for working.Err() == nil {
			results = append(results, worker.Run(ctx, lockers, task, 0))
		}
	})
	began := time.Now()
	err := work()
	took := time.Since(began)
	done()
	wg.Wait()
	s := Sample{Seconds: took.Seconds()}
	for i := range silent {
		s[Silent] = max(s[Silent], float64(silent[i].Microseconds())/1000)
		if err == nil {
			err = errs[i]
		}
	}
	s.latencies(results)
	return s, err
}

// latencies adds what operations took, and how many failed.
func (s Sample) latencies(results []*worker.Result) {
	var all []float64
	done, failed := 0, 0
	for _, r := range results {
		all = append(all, r.Latencies...)
		done, failed = done+r.Ops, failed+r.Failed
	}
	s[P50], s[P99], s[Slowest] = stat.Quantile(all, 0.5), stat.Quantile(all, 0.99), stat.Quantile(all, 1)/1000
	s[Failures] = 100 * float64(failed) / float64(done+failed)
}

// silence sends PING on a connection until the context ends, and returns how long the
// longest answer took. It has a thread of its own that comes first on the machine, and waits in the kernel: it would measure
// how long our own goroutines wait for each other.
func silence(ctx context.Context, addr string) (longest time.Duration, err error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	target.ComeFirst(0)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	fd, answer := int(file.Fd()), make([]byte, 64) // Fd makes it blocking
	for ctx.Err() == nil {
		began := time.Now()
		if _, err := syscall.Write(fd, []byte("PING\r\n")); err != nil {
			return longest, fmt.Errorf("PING of %s: %w", addr, err)
		}
		if n, err := syscall.Read(fd, answer); err != nil || n == 0 {
			return longest, fmt.Errorf("PING of %s: %w", addr, cmp.Or(err, io.ErrUnexpectedEOF))
		}
		longest = max(longest, time.Since(began))
		time.Sleep(probePause)
	}
	return longest, nil
}
