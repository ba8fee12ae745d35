// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
)

var serveCosts = flag.Bool("serve.costs", false, "run TestServeCosts, which wants the machine for itself")

// TestServeCosts measures what a lock costs through the server compared with one from the store, and what
// a session costs the server. It fails for counts and for memory; times are figures, because they depend on what else
// the machine does.
func TestServeCosts(t *testing.T) {
	if !*serveCosts {
		t.Skip("make figures-serve runs it")
	}
	s := startRedis(t)
	users := filepath.Join(t.TempDir(), "users.json")
	made := fencelockCLI(t, s.url(), "serve", "token", "ann", "--may", "take", "--users", users).want(0)
	token := strings.TrimSpace(made.out.String())
	p, url := serving(t, s, "--users", users, "--lock-ttl", (2 * memoryTTL).String())
	acquireCosts(t, s, url, token)
	callCosts(t, s, users, token) // while the store is empty: a server that starts lists all locks
	memoryCosts(t, p, url, token)
}

// met prints a figure, and fails the test if it does not meet its goal.
func met(t *testing.T, name string, value float64, goal figure.Bound) {
	t.Helper()
	figure.Print(name, value, goal)
	if !goal.Holds(value) {
		t.Errorf("%s is %v, want %v", name, value, goal)
	}
}

// callCosts compares how often the store is called for a lock and its release.
func callCosts(t *testing.T, s *redisServer, users, token string) {
	const rounds = 300
	var calls [2]atomic.Int64
	var paths [2]*proxy
	for i := range paths {
		paths[i] = newProxy(t, s.addr)
		paths[i].Filter(func(_ int, toServer bool, _ []byte) bool {
			if toServer {
				calls[i].Add(1)
			}
			return true
		})
	}
	_, url := servingAt(t, "redis://"+paths[0].addr, "--users", users, "--every", "10s")
	api := newAPIClient(url, token, 10*time.Second)
	must.OK(t, api.open())
	direct := (&redisServer{RedisServer: s.RedisServer, addr: paths[1].addr}).client(t, nil)
	var before [2]int64
	for i := range rounds + 10 {
		if i == 10 { // the first open sessions and connections
			before = [2]int64{calls[0].Load(), calls[1].Load()}
		}
		name := fmt.Sprint("calls/", i)
		l, err := api.lock(name, name)
		var released apiLease
		if err != nil || api.call("/v1/release", l.named(), &released) != nil || released.State != "released" {
			t.Fatalf("%+v, %+v, %v", l, released, err)
		}
		held, err := direct.Mutex("direct/" + name).Lock(t.Context())
		must.OK(t, err)
		must.OK(t, held.Unlock(t.Context()))
	}
	through, without := float64(calls[0].Load()-before[0])/rounds, float64(calls[1].Load()-before[1])/rounds
	t.Logf("a lock and its release are %.2f calls of the store through the server, %.2f directly", through, without)
	met(t, "serve-acquire-calls-vs-direct", through/without, figure.AtMost(1.1))
}

// acquireCosts compares medians of acquisitions of free locks, made in turn.
func acquireCosts(t *testing.T, s *redisServer, url, token string) {
	api := newAPIClient(url, token, 10*time.Second)
	must.OK(t, api.open())
	direct := s.client(t, nil)
	wire := newWire(t, api)
	var times [2][]time.Duration
	for i := range 2000 {
		name := fmt.Sprint("cost/", i)
		began := time.Now()
		l, err := wire.acquire(name)
		through := time.Since(began)
		if err != nil || l.State != "held" {
			t.Fatalf("%+v, %v", l, err)
		}
		began = time.Now()
		held, err := direct.Mutex("direct/" + name).Lock(t.Context())
		without := time.Since(began)
		must.OK(t, err)
		var released apiLease
		if err := api.call("/v1/release", l.named(), &released); err != nil || released.State != "released" {
			t.Fatalf("%+v, %v", released, err)
		}
		must.OK(t, held.Unlock(t.Context()))
		if i >= 200 { // the first warm up
			times[0], times[1] = append(times[0], through), append(times[1], without)
		}
	}
	median := func(all []time.Duration) float64 { slices.Sort(all); return float64(all[len(all)/2]) }
	t.Logf("through the server %v, directly %v", time.Duration(median(times[0])), time.Duration(median(times[1])))
	figure.Print("serve-acquire-vs-direct", median(times[0])/median(times[1]), figure.AtMost(2.5))
}

// wire is a connection on which requests are written by hand: what the HTTP client of Go
// costs is not a cost of the server.
type wire struct {
	api  *apiClient
	conn net.Conn
	r    *bufio.Reader
}

func newWire(t *testing.T, api *apiClient) *wire {
	conn, err := net.Dial("tcp", strings.TrimPrefix(api.url, "http://"))
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{api, conn, bufio.NewReader(conn)}
}

// acquire takes a lock that is free.
func (w *wire) acquire(name string) (l apiLease, err error) {
	body := fmt.Sprintf(`{"session":%q,"id":%q,"lock":%q,"wait_ms":1000}`, w.api.session, name, name)
	_, err = fmt.Fprintf(w.conn, "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", w.api.token, len(body), body)
	if err != nil {
		return l, err
	}
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return l, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	return l, err
}

// memoryTTL is far longer than it takes to make the sessions: none may end before the memory is read.
const memoryTTL = 30 * time.Second

// memoryCosts counts the memory of the server for sessions that hold one lock each.
func memoryCosts(t *testing.T, p *process, url, token string) {
	const first, more = 500, 4000
	all := hold(t, url, token, 0, first)
	before := memoryOf(t, p)
	all = append(all, hold(t, url, token, first, more)...)
	perSession := float64(memoryOf(t, p)-before) / more
	if n := stillHeld(t, url, token, all); n != first+more {
		t.Errorf("%d of %d sessions had their lease when the memory was read", n, first+more)
	}
	met(t, "serve-memory-per-session-kb", perSession, figure.AtMost(16))
}

// heldBy is a session with its lease.
type heldBy struct {
	session string
	lease   apiLease
}

// hold makes sessions that hold one lock each, over a few connections.
func hold(t *testing.T, url, token string, from, n int) []heldBy {
	t.Helper()
	made := make([]heldBy, n)
	byWorkers(n, func(c *apiClient, i int) {
		err := c.open()
		if err != nil {
			t.Error(err)
			return
		}
		made[i].session = c.session
		if made[i].lease, err = c.lock("1", fmt.Sprint("memory/", from+i)); err != nil {
			t.Error(err)
		}
	}, url, token)
	return made
}

// stillHeld counts the sessions that have their lease.
func stillHeld(t *testing.T, url, token string, all []heldBy) int {
	t.Helper()
	var count atomic.Int64
	byWorkers(len(all), func(c *apiClient, i int) {
		c.session = all[i].session
		l, _ := c.renew(&all[i].lease, time.Now().Add(patience)) // calls above the rate limit are repeated
		if l.State == "held" && l.Token == all[i].lease.Token {
			count.Add(1)
		}
	}, url, token)
	return int(count.Load())
}

// byWorkers does something n times, each time with a client that has no session.
func byWorkers(n int, do func(c *apiClient, i int), url, token string) {
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			c := newAPIClient(url, token, memoryTTL)
			for i := worker; i < n; i += 8 {
				c.session = ""
				do(c, i)
			}
		})
	}
	all.Wait()
}

// memoryOf is the resident memory of a process in KiB.
func memoryOf(t *testing.T, p *process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip("the memory of a process is read on Linux only")
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	must.OK(t, err)
	return kb
}
