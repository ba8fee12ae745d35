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
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
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
	goWorkers   = 20              // in four processes
	pyWorkers   = 10
	holders     = 12
)

var demoLocks = []string{"demo/a", "demo/b", "demo/c", "demo/d"}

// demo is Redis, three servers behind a balancer, workers, and clients that keep a lock.
type demo struct {
	*testing.T
	redis    *server
	users    string
	token    string
	balancer *balancer
	guard    *guard
	addrs    []string // of the servers
	rand     *rand.Rand

	mu      sync.Mutex
	servers []*process
	workers []*process
	kills   []kill
	keeping [holders]kept
}

// kill is the end of a server with the leases that were held through it.
type kill struct{ held, lost int }

// TestServeDemo kills, pauses and cuts off everything but Redis, and the network to Redis too. No worker writes
// with a lock that another one holds, no lock stays taken, and clients keep their leases
// when their server is killed.
func TestServeDemo(t *testing.T) {
	if *demoFor == 0 {
		t.Skip("make serve-demo runs it, make figures-serve in a short form")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing; install it and run: go test ./cmd/fencelock -run TestServeDemo -serve.demo=30s -v")
	}
	d := newDemo(t)
	stop := make(chan struct{})
	var keeping sync.WaitGroup
	for i := range holders {
		keeping.Go(func() { d.keep(i, stop) })
	}
	for end := time.Now().Add(*demoFor); time.Now().Before(end); {
		d.fault()
	}
	stuck := d.stuck()
	close(stop)
	keeping.Wait()
	writes, rejected, overlaps := d.guard.counts()
	held, lost := 0, 0
	for _, k := range d.kills {
		held, lost = held+k.held, lost+k.lost
	}
	t.Logf("%d writes, %d rejected by the guard, %d servers killed with %d leases, of which %d were lost", writes, rejected, len(d.kills), held, lost)
	figure.Print("serve-overlaps-fenced", overlaps, figure.Exactly(0))
	figure.Print("serve-stuck", stuck, figure.Exactly(0))
	figure.Print("serve-leases-kept-over-server-kill", float64(held-lost)/float64(max(held, 1)), figure.AtLeast(0.95))
	if overlaps > 0 || stuck > 0 || held == 0 || float64(lost) > 0.05*float64(held) || writes == 0 {
		t.Errorf("overlaps %d, stuck %d, held %d, lost %d, writes %d", overlaps, stuck, held, lost, writes)
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
	}
	d.balancer = newBalancer(t, d.addrs...)
	for i := range d.servers {
		d.startServer(i)
	}
	for i := range pyWorkers {
		d.workers = append(d.workers, d.startPython(fmt.Sprint("py", i)))
	}
	for i := range 4 {
		d.workers = append(d.workers, d.startGo(fmt.Sprint("go", i)))
	}
	return d
}

// startServer starts a server that was not running.
func (d *demo) startServer(i int) {
	p := begin(d, d.redis.url(), "serve", "--listen", d.addrs[i], "--users", d.users, "--lock-ttl", demoLockTTL.String())
	until(d, "a server serves", func() bool { return servedAt.MatchString(p.err.String()) })
	d.mu.Lock()
	d.servers[i] = p
	d.mu.Unlock()
}

// startPython starts a worker that takes locks through the servers.
func (d *demo) startPython(name string) *process {
	script, err := filepath.Abs("testdata/worker.py")
	if err != nil {
		d.Fatal(err)
	}
	args := append([]string{script, d.balancer.url(), d.token, d.guard.URL, name, fmt.Sprint(demoTTL.Seconds())}, demoLocks...)
	return beginProgram(d, exec.Command("python3", args...))
}

// startGo starts a process of workers that take the same locks from Redis directly.
func (d *demo) startGo(name string) *process {
	self, err := os.Executable()
	if err != nil {
		d.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), goWorkerVariable+"="+strings.Join([]string{d.redis.url(), d.guard.URL, name}, " "))
	return beginProgram(d, cmd)
}

// beginProgram starts a program that dies with the test.
func beginProgram(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &p.out, &p.err, servers.Mortal()
	cmd.WaitDelay = time.Second // a child of it may keep its output open
	python, err := filepath.Abs("../../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Environ(), "PYTHONPATH="+python, "PYTHONDONTWRITEBYTECODE=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	for range goWorkers / 4 {
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

// fault does one thing, and heals it.
func (d *demo) fault() {
	i, w := d.rand.IntN(len(d.servers)), d.rand.IntN(len(d.workers))
	pause := time.Duration(d.rand.IntN(3000)) * time.Millisecond
	switch d.rand.IntN(7) {
	case 0, 1:
		d.killServer(i)
	case 2:
		d.pauseFor(d.servers[i], pause)
	case 3:
		d.pauseFor(d.workers[w], 2*pause) // longer than its lease, sometimes
	case 4:
		d.balancer.cut(d.addrs[i])
	case 5:
		d.restartWorker(w)
	case 6:
		resume := d.redis.Pause()
		time.Sleep(pause / 6) // less than the leases have
		resume()
	}
	time.Sleep(time.Duration(d.rand.IntN(500)) * time.Millisecond)
}

func (d *demo) pauseFor(p *process, pause time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(pause)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

func (d *demo) restartWorker(w int) {
	old := d.workers[w]
	_ = old.cmd.Process.Kill()
	<-old.done
	if w < pyWorkers {
		d.workers[w] = d.startPython(fmt.Sprint("py", w))
	} else {
		d.workers[w] = d.startGo(fmt.Sprint("go", w-pyWorkers))
	}
}
