// SPDX-License-Identifier: Apache-2.0

package candidate_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/bench/internal/candidate"
	"github.com/fencelock/fencelock/bench/internal/engine"
)

// setUp are the commands that connecting takes, and pings: nobody counts them.
var setUp = []string{"hello", "client", "info", "ping", "script", "command", "select"}

// running are the commands that run a script; they are always counted.
var running = []string{"eval", "evalsha"}

// monitor collects the commands that a server executes: those that clients sent,
// and those that scripts called.
type monitor struct {
	conn net.Conn
	mu   sync.Mutex
	sent map[string]bool
	lua  map[string]bool
	end  chan string
}

// line is such as: 1700000000.123456 [0 127.0.0.1:5000] "SET" "key" ...
var line = regexp.MustCompile(`^\+[\d.]+ \[\d+ (\S+)\] "([^"]*)"(?: "([^"]*)")?`)

func startMonitor(t *testing.T, addr string) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	m := &monitor{conn: conn, sent: map[string]bool{}, lua: map[string]bool{}, end: make(chan string, 1)}
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
		m.lua[name] = true
	} else {
		m.sent[name] = true
	}
}

// settle waits until the monitor has seen everything that was done so far.
func (m *monitor) settle(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "ECHO settled\r\n")
	select {
	case <-m.end:
	case <-time.After(20 * time.Second):
		t.Fatal("the monitor did not see ECHO within 20 s")
	}
}

// TestPlainIsWhatIsSent: what a candidate says it sends besides scripts is what
// the server sees, and no script calls the same commands. If it were otherwise,
// the commands per acquisition in every report would be wrong.
func TestPlainIsWhatIsSent(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed; on Debian: apt-get install redis-server")
	}
	for _, c := range candidate.All {
		if c == candidate.Channel {
			continue // sends nothing
		}
		t.Run(c.Name, func(t *testing.T) {
			server, err := engine.StartRedis(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			m := startMonitor(t, server.Addr())
			use(t, c, server.Addr())
			m.settle(t, server.Addr())
			m.mu.Lock()
			defer m.mu.Unlock()
			for name := range m.sent {
				if !slices.Contains(c.Plain, name) && !slices.Contains(setUp, name) && !slices.Contains(running, name) {
					t.Errorf("it sends %s, which is not in Plain", name)
				}
			}
			for _, name := range c.Plain {
				if !m.sent[name] {
					t.Errorf("Plain has %s, which it does not send", name)
				}
				if m.lua[name] {
					t.Errorf("%s is sent and called by a script too: counting it would count the script twice", name)
				}
			}
		})
	}
}

// use locks and unlocks, waits for a lock that another locker has, and gives up
// waiting.
func use(t *testing.T, c *candidate.Candidate, addr string) {
	t.Helper()
	if c == candidate.PingPong { // one to a process; it passes the message to itself
		use1(t, c, addr)
		return
	}
	lockers, err := c.Open(t.Context(), candidate.Place{Addr: addr, Processes: 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer lockers[1].Close()
	defer lockers[0].Close()
	for range 3 {
		if err := lockers[0].Do(t.Context(), "alone", func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Waits {
		return
	}
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- lockers[0].Do(t.Context(), "both", func() { close(inside); <-leave })
	}()
	<-inside
	impatient, giveUp := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, giveUp)
	if err := lockers[1].Do(impatient, "both", nil); err == nil {
		t.Error("two had it at a time")
	}
	time.AfterFunc(50*time.Millisecond, func() { close(leave) }) // by then the other waits
	if err := lockers[1].Do(t.Context(), "both", nil); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func use1(t *testing.T, c *candidate.Candidate, addr string) {
	t.Helper()
	l, err := c.One(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		if err := l.Do(t.Context(), "run", nil); err != nil {
			t.Fatal(err)
		}
	}
}
