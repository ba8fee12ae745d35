// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore"
)

var (
	demoFor  = flag.Duration("serve.demo", 0, "how long TestServeDemo kills, pauses and cuts off; 0 skips it")
	demoSeed = flag.Uint64("serve.seed", 1, "what TestServeDemo does, and in which order")
)

const (
	demoTTL     = 3 * time.Second // of clients
	demoLockTTL = 8 * time.Second // of servers
	goWorkers   = 20
	goProcesses = 4
	pyWorkers   = 10
	holders     = 12
)

var demoLocks = []string{"demo/a", "demo/b", "demo/c", "demo/d"}

// demo is Redis, three servers behind a balancer, workers, and clients that keep a lock.
type demo struct {
	*testing.T
	redis    *redisServer
	users    string
	token    string
	balancer *balancer
	guard    *guard
	addrs    []string // of the servers
	paths    []*proxy // to Redis, of the servers
	goPaths  []*proxy // to Redis, of the Go processes
	rand     *rand.Rand

	kills, cutOffs count

	mu      sync.Mutex
	servers []*process
	workers []*process
	keeping [holders]kept
}

// count is how many leases were held through a server when a fault began, and how many of them were lost.
type count struct{ times, held, lost int }

func (c count) kept() float64 { return float64(c.held-c.lost) / float64(max(c.held, 1)) }

// TestServeDemo kills and pauses servers and workers, cuts servers and Go workers off from Redis, cuts servers off
// from their clients, and pauses Redis for less than a lease. Redis is not killed: it would lose all locks. No worker
// writes with a lock that another one holds, no lock stays taken, and clients keep their leases when their server is killed.
func TestServeDemo(t *testing.T) {
	if *demoFor == 0 {
		t.Skip("make serve-demo runs it, make figures-serve in a short form")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed; install it and run: go test ./cmd/fencelock -run TestServeDemo -serve.demo=30s -v")
	}
	d := newDemo(t)
	stop := make(chan struct{})
	var keeping sync.WaitGroup
	for i := range holders {
		keeping.Go(func() { d.keep(i, stop) })
	}
	d.faults(time.Now().Add(*demoFor))
	stuck := d.stuck()
	close(stop)
	keeping.Wait()
	writes, rejected, overlaps := d.guard.counts()
	t.Logf("%d writes, %d rejected by the guard", writes, rejected)
	t.Logf("%d servers killed with %d leases, of which %d were lost", d.kills.times, d.kills.held, d.kills.lost)
	t.Logf("%d servers cut off with %d leases, of which %d were lost", d.cutOffs.times, d.cutOffs.held, d.cutOffs.lost)
	figure.Print("serve-overlaps-fenced", overlaps, figure.Exactly(0))
	figure.Print("serve-stuck", stuck, figure.Exactly(0))
	figure.Print("serve-leases-kept-over-server-kill", d.kills.kept(), figure.AtLeast(0.95))
	figure.Print("serve-leases-kept-over-cut-off", d.cutOffs.kept(), figure.AtLeast(0.95))
	if overlaps > 0 || stuck > 0 || d.kills.held == 0 || d.kills.kept() < 0.95 || d.cutOffs.held == 0 || d.cutOffs.kept() < 0.95 || writes == 0 {
		t.Errorf("overlaps %d, stuck %d, kills %+v, cut-offs %+v, writes %d", overlaps, stuck, d.kills, d.cutOffs, writes)
	}
}

func newDemo(t *testing.T) *demo {
	d := &demo{T: t, redis: startRedis(t), guard: newGuard(t), rand: rand.New(rand.NewPCG(*demoSeed, 0))}
	d.users = filepath.Join(t.TempDir(), "users.json")
	made := fencelockCLI(t, d.redis.url(), "serve", "token", "demo", "--may", "see,take", "--users", d.users).want(0)
	d.token = strings.TrimSpace(made.out.String())
	for range 3 {
		port := freePort(t)
		d.addrs = append(d.addrs, "127.0.0.1:"+port)
		d.servers = append(d.servers, nil)
		d.paths = append(d.paths, newProxy(t, d.redis.addr))
	}
	d.balancer = newBalancer(t, d.addrs...)
	for i := range d.servers {
		d.startServer(i)
	}
	for i := range pyWorkers {
		d.workers = append(d.workers, d.startPython(fmt.Sprint("py", i)))
	}
	for i := range goProcesses {
		d.goPaths = append(d.goPaths, newProxy(t, d.redis.addr))
		d.workers = append(d.workers, d.startGo(i))
	}
	return d
}

// startServer starts a server that was not running.
func (d *demo) startServer(i int) {
	p := begin(d, "redis://"+d.paths[i].addr, "serve", "--listen", d.addrs[i], "--users", d.users, "--lock-ttl", demoLockTTL.String())
	until(d, "a server serves", func() bool {
		select {
		case <-p.done:
			d.Fatalf("a server ended with exit code %d: %s", p.code, p.err.String())
		default:
		}
		return servedAt.MatchString(p.err.String())
	})
	d.mu.Lock()
	d.servers[i] = p
	d.mu.Unlock()
}

// startPython starts a worker that takes locks through the servers.
func (d *demo) startPython(name string) *process {
	script, err := filepath.Abs("testdata/worker.py")
	must.OK(d, err)
	args := append([]string{script, d.balancer.url(), d.token, d.guard.URL, name, fmt.Sprint(demoTTL.Seconds())}, demoLocks...)
	return beginProgram(d, exec.Command("python3", args...))
}

// startGo starts a process of workers that take the same locks from Redis directly.
func (d *demo) startGo(i int) *process {
	self, err := os.Executable()
	must.OK(d, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), goWorkerVariable+"="+strings.Join([]string{"redis://" + d.goPaths[i].addr, d.guard.URL, fmt.Sprint("go", i)}, " "))
	return beginProgram(d, cmd)
}

// beginProgram starts a program that dies with the test.
func beginProgram(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &p.out, &p.err, servers.Mortal()
	cmd.WaitDelay = time.Second // a child of it may keep its output open
	python, err := filepath.Abs("../../clients/python")
	must.OK(t, err)
	cmd.Env = append(cmd.Environ(), "PYTHONPATH="+python, "PYTHONDONTWRITEBYTECODE=1")
	must.OK(t, cmd.Start())
	go func() { _ = cmd.Wait(); p.code = cmd.ProcessState.ExitCode(); close(p.done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-p.done })
	return p
}

// goWorkerVariable makes this program a worker.
const goWorkerVariable = "FENCELOCK_TEST_SERVE_WORKER"

// runGoWorker works until it is killed.
func runGoWorker(config string) {
	words := strings.Fields(config)
	store, err := redisstore.Open(context.Background(), words[0], nil)
	if err != nil {
		panic(err)
	}
	c, err := fencelock.New(store, &fencelock.Options{TTL: demoTTL, Owner: words[2]})
	if err != nil {
		panic(err)
	}
	for range goWorkers / goProcesses {
		go func() {
			for {
				lock := demoLocks[rand.IntN(len(demoLocks))]
				_ = c.Do(context.Background(), lock, func(_ context.Context, l *fencelock.Lease) error {
					value, ok := writeGuarded(words[1], guardCall{Worker: words[2], Lock: lock, Token: l.Token()})
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
					if ok {
						writeGuarded(words[1], guardCall{Worker: words[2], Lock: lock, Token: l.Token(), Write: true, Value: value + 1})
					}
					return nil
				})
			}
		}()
	}
	select {}
}

func writeGuarded(url string, call guardCall) (int64, bool) {
	text, err := json.Marshal(call)
	if err != nil {
		panic(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(text))
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	var answer struct {
		OK    bool
		Value int64
	}
	return answer.Value, json.NewDecoder(resp.Body).Decode(&answer) == nil && answer.OK
}
