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
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

var serveCosts = flag.Bool("serve.costs", false, "run TestServeCosts, which wants the machine for itself")

// TestServeCosts measures what a lock costs through the server compared with one from the store, and what
// a session costs the server.
func TestServeCosts(t *testing.T) {
	if !*serveCosts {
		t.Skip("make figures-serve runs it")
	}
	s := startRedis(t)
	users := filepath.Join(t.TempDir(), "users.json")
	made := fencelockCLI(t, s.url(), "serve", "token", "ann", "--may", "take", "--users", users).want(0)
	token := strings.TrimSpace(made.out.String())
	p, url := serving(t, s, "--users", users)
	acquireCosts(t, s, url, token)
	memoryCosts(t, p, url, token)
}

// acquireCosts compares medians of acquisitions of free locks, made in turn.
func acquireCosts(t *testing.T, s *server, url, token string) {
	api := newAPIClient(url, token, 10*time.Second)
	if err := api.open(); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		var released apiLease
		if err := api.call("/v1/release", l.named(), &released); err != nil || released.State != "released" {
			t.Fatalf("%+v, %v", released, err)
		}
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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

// memoryCosts counts the memory of the server for sessions that hold one lock each.
func memoryCosts(t *testing.T, p *process, url, token string) {
	const first, more = 500, 4000
	hold(t, url, token, 0, first)
	before := memoryOf(t, p)
	hold(t, url, token, first, more)
	perSession := float64(memoryOf(t, p)-before) / more
	figure.Print("serve-memory-per-session-kb", perSession, figure.AtMost(16))
}

// hold makes sessions that hold one lock each, over a few connections.
func hold(t *testing.T, url, token string, from, n int) {
	t.Helper()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			c := newAPIClient(url, token, 15*time.Second)
			for i := worker; i < n; i += 8 {
				c.session = ""
				if err := c.open(); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.lock("1", fmt.Sprint("memory/", from+i)); err != nil {
					t.Error(err)
					return
				}
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
	if err != nil {
		t.Fatal(err)
	}
	return kb
}
