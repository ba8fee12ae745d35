// SPDX-License-Identifier: Apache-2.0

package candidate_test

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
	"github.com/fencelock/fencelock/lab/bench/internal/worker"
)

// setUp are the commands that connecting takes, or opening a session, pings, and what the keep-alive of a node of a quorum
// takes, which on a slow machine is sent before the end: they are not counted.
var setUp = []string{"hello", "client", "info", "time", "ping", "script", "command", "select", "hmget", "zadd", "zcount"}

// most is how often a candidate may send one of them; it locks twice as often.
const most = 50

// running are the commands that run a script; they are always counted.
var running = []string{"eval", "evalsha"}

// monitor collects the commands that a server executes: those that clients sent,
// and those that scripts called.
type monitor struct {
	conn net.Conn
	mu   sync.Mutex
	sent map[string]int
	lua  map[string]int
	end  chan string
	news chan struct{} // there is something new
}

// line is such as: 1700000000.123456 [0 127.0.0.1:5000] "SET" "key" ...
var line = regexp.MustCompile(`^\+[\d.]+ \[\d+ (\S+)\] "([^"]*)"(?: "([^"]*)")?`)

func startMonitor(t *testing.T, addr string) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	m := &monitor{conn: conn, sent: map[string]int{}, lua: map[string]int{}, end: make(chan string, 1), news: make(chan struct{}, 1)}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20) // a script comes with its text
	fmt.Fprint(conn, "MONITOR\r\n")
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR: %q", lines.Text())
	}
	go func() {
		for lines.Scan() {
			m.note(lines.Text())
		}
	}()
	return m
}

func (m *monitor) note(text string) {
	parts := line.FindStringSubmatch(text)
	if parts == nil {
		return
	}
	name := strings.ToLower(parts[2])
	if name == "echo" {
		m.end <- parts[3]
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if parts[1] == "lua" {
		m.lua[name]++
	} else {
		m.sent[name]++
	}
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// patience is how long a candidate may take to send what it says it sends.
const patience = 20 * time.Second

// await waits until all of the commands were sent, or for so long that they will
// not be.
func (m *monitor) await(names []string) {
	late := time.After(patience)
	for {
		m.mu.Lock()
		missing := slices.ContainsFunc(names, func(name string) bool { return m.sent[name] == 0 })
		m.mu.Unlock()
		if !missing {
			return
		}
		select {
		case <-m.news:
		case <-late:
			return
		}
	}
}

// sync waits until the monitor has seen everything that was done so far.
func (m *monitor) sync(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "ECHO synced\r\n")
	select {
	case <-m.end:
	case <-time.After(patience):
		t.Fatalf("the monitor did not see ECHO within %v", patience)
	}
}

// TestPlainIsWhatIsSent: the commands that a candidate lists as sent outside of scripts
// are those that the server sees, and no script calls them unless the candidate admits it.
// Otherwise the commands per acquisition would be wrong in every report.
func TestPlainIsWhatIsSent(t *testing.T) {
	if err := servers.Redis.Need(); err != nil {
		t.Skip(err)
	}
	for _, c := range candidate.All {
		start := map[string]func(context.Context) (target.Server, error){"redis": target.StartRedis, "quorum": target.StartFive}[c.Server]
		if start == nil {
			continue // its server does not count
		}
		t.Run(c.Name, func(t *testing.T) {
			needsJava(t, c)
			server, err := start(t.Context())
			must.OK(t, err)
			defer server.Stop()
			first, _, _ := strings.Cut(server.Addr(), ",") // of several they all see the same
			m := startMonitor(t, first)
			use(t, c, server.Addr(), m)
			m.sync(t, first)
			m.mu.Lock()
			defer m.mu.Unlock()
			for name := range m.sent {
				switch {
				case slices.Contains(slices.Concat(c.Plain, c.Parts, c.Uncounted, running), name):
				case !slices.Contains(setUp, name):
					t.Errorf("it sends %s, which is not in Plain", name)
				case name != "ping" && m.sent[name] > most:
					t.Errorf("it sent %s %d times; with every lock that is no set-up", name, m.sent[name])
				}
			}
			for _, name := range c.Uncounted {
				if m.sent[name] == 0 || m.lua[name] == 0 {
					t.Errorf("%s is not both sent and called by a script; it can be counted", name)
				}
			}
			for _, name := range c.Plain {
				if m.sent[name] == 0 {
					t.Errorf("Plain has %s, which it does not send", name)
				}
				if m.lua[name] > 0 && !slices.Contains(c.Overcounted, name) {
					t.Errorf("%s is sent and called by a script too: counting it would count the script twice", name)
				}
			}
		})
	}
}

// needsJava skips a candidate that is not Go, unless it was asked for.
func needsJava(t *testing.T, c *candidate.Candidate) {
	t.Helper()
	if c.Command != nil && os.Getenv("BENCH_JAVA") == "" {
		t.Skip("it needs Maven and downloads its libraries; run it with BENCH_JAVA=1 go test ./lab/bench/internal/candidate")
	}
}

// TestCurator: two processes of it take turns, and leave no node behind that would
// make the next wait.
func TestCurator(t *testing.T) {
	needsJava(t, candidate.Curator)
	server, err := target.StartZooKeeper(t.Context())
	if err != nil {
		t.Skip(err)
	}
	defer server.Stop()
	for range 2 {
		useProcesses(t, candidate.Curator, server.Addr())
	}
}

// use locks and unlocks, waits for a lock that another locker has, and gives up
// waiting.
func use(t *testing.T, c *candidate.Candidate, addr string, m *monitor) {
	t.Helper()
	if c.Command != nil {
		useProcesses(t, c, addr)
		return
	}
	if c == candidate.PingPong { // one to a process; it passes the message to itself
		use1(t, c, addr)
		return
	}
	lockers, err := c.Open(t.Context(), candidate.Place{Addr: addr, Processes: 1}, 2)
	must.OK(t, err)
	defer lockers[1].Close()
	defer lockers[0].Close()
	for i := range 2 * most { // one name would linger and be asked of the server once, before plain commands are in use
		must.OK(t, candidate.Do(t.Context(), lockers[0], fmt.Sprint("alone-", i), func() {}))
	}
	if !c.Waits {
		return
	}
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- candidate.Do(t.Context(), lockers[0], "both", func() { close(inside); <-leave })
	}()
	select {
	case <-inside:
	case err := <-done:
		t.Fatalf("a free lock: %v", err)
	}
	impatient, giveUp := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, giveUp)
	if err := candidate.Do(impatient, lockers[1], "both", nil); err == nil {
		t.Error("two had it at a time")
	}
	go func() {
		m.await(slices.DeleteFunc(slices.Clone(c.Plain), func(name string) bool { return name == "unsubscribe" })) // some begin to listen when they wait
		close(leave)
	}()
	if err := candidate.Do(t.Context(), lockers[1], "both", nil); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func use1(t *testing.T, c *candidate.Candidate, addr string) {
	t.Helper()
	l, err := c.One(t.Context(), addr)
	must.OK(t, err)
	defer l.Close()
	for range 3 {
		must.OK(t, candidate.Do(t.Context(), l, "run", nil))
	}
}

// useProcesses lets two processes take turns.
func useProcesses(t *testing.T, c *candidate.Candidate, addr string) {
	t.Helper()
	p, err := worker.Start(t.Context(), c, addr, 2)
	must.OK(t, err)
	defer p.Stop()
	r, err := p.Run(t.Context(), worker.Task{Name: "both", Section: 5 * time.Millisecond, Turns: true, For: time.Second})
	if err != nil || r.Err != "" {
		t.Fatal(err, r.Err)
	}
	h := worker.Between(r.Turns, 2, 0, math.MaxInt64)
	if h.Overlaps != 0 || h.Each[0] == 0 || h.Each[1] == 0 {
		t.Errorf("%v turns each, %d overlaps", h.Each, h.Overlaps)
	}
}
