// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
)

var pid = os.Getpid()

// candidates are processes with electors, each behind its own proxy.
type candidates struct {
	*site
	byPid map[int]*exec.Cmd
	proxy map[int]*servers.Proxy
	// excused are the processes that could not stop in time: killed or paused.
	excused []int
}

func (c *candidates) add(electors int) {
	p, err := servers.NewProxy(c.redis.Addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(p.Close)
	cmd := c.startAt(p.Addr, "k8s electors", 0, fmt.Sprint(electors))
	c.byPid[cmd.Process.Pid], c.proxy[cmd.Process.Pid] = cmd, p
}

// leader waits for one that has worked after so many lines, and is not excluded.
func (c *candidates) leader(after int, excluded ...int) (leader, lines int) {
	c.t.Helper()
	if err := servers.Await("a leader", func() bool {
		all := c.runs()
		for i := len(all) - 1; i >= after && leader == 0; i-- {
			if strings.HasPrefix(all[i].what, "worked") && !slices.Contains(excluded, all[i].pid) {
				leader, lines = all[i].pid, len(all)
			}
		}
		return leader != 0
	}); err != nil {
		c.t.Fatalf("%v; the last lines: %v", err, tail(c.runs()))
	}
	return leader, lines
}

// stopped waits until a process has reported the end of its term.
func (c *candidates) stopped(process, after int) {
	c.t.Helper()
	if err := servers.Await("the end of a term", func() bool {
		return slices.ContainsFunc(c.runs()[after:], func(r ran) bool { return r.pid == process && strings.HasPrefix(r.what, "stopped") })
	}); err != nil {
		c.t.Fatalf("%v; the last lines: %v", err, tail(c.runs()))
	}
}

func tail(all []ran) []ran { return all[max(0, len(all)-20):] }

// twoLeaders returns the lines of a history at which two lead: a term begins, or its leader
// works, while another leads that could have stopped.
func twoLeaders(history []ran, excused []int) (found []string) {
	leader := ran{} // of the present term, with its token
	for i, r := range history {
		event, token, _ := strings.Cut(r.what, " ")
		other := leader.pid != 0 && leader.what != token
		switch {
		case event == "started" && other && !slices.Contains(excused, leader.pid):
			found = append(found, fmt.Sprintf("line %d: %v, while %v leads", i, r, leader))
		case event == "worked" && other:
			found = append(found, fmt.Sprintf("line %d: %v, while %v leads", i, r, leader))
		case event == "failed":
			found = append(found, fmt.Sprintf("line %d: %v", i, r))
		}
		switch {
		case event == "started":
			leader = ran{r.pid, token}
		case event == "stopped" && !other:
			leader = ran{}
		}
	}
	return found
}

// TestTwoLeadersAreFound: the check of histories finds what it is for.
func TestTwoLeadersAreFound(t *testing.T) {
	for _, tt := range []struct {
		history []ran
		want    int
	}{
		{[]ran{{1, "started 1"}, {1, "worked 1"}, {1, "stopped 1"}, {2, "started 2"}, {2, "worked 2"}}, 0},
		{[]ran{{1, "started 1"}, {2, "started 2"}, {1, "stopped 1"}}, 1},
		{[]ran{{9, "started 1"}, {2, "started 2"}, {2, "worked 2"}, {9, "stopped 1"}, {2, "worked 2"}}, 0},
		{[]ran{{9, "started 1"}, {2, "started 2"}, {9, "worked 1"}}, 1},
		{[]ran{{1, "started 1"}, {1, "started 2"}}, 1},
		{[]ran{{1, "failed to do it"}}, 1},
	} {
		if got := twoLeaders(tt.history, []int{9}); len(got) != tt.want {
			t.Errorf("%v: %v, want %d", tt.history, got, tt.want)
		}
	}
}

// TestK8sElectors: five electors in three processes, through kills, pauses and networks that
// fail. There are never two leaders, and one ends before the next begins.
func TestK8sElectors(t *testing.T) {
	c := &candidates{site: newSite(t), byPid: map[int]*exec.Cmd{}, proxy: map[int]*servers.Proxy{}}
	for _, n := range []int{2, 2, 1} {
		c.add(n)
	}
	for range 2 {
		killed, lines := c.leader(0)
		c.excused = append(c.excused, killed)
		c.end(c.byPid[killed], syscall.SIGKILL)
		c.add(2)

		paused, lines := c.leader(lines, killed)
		c.excused = append(c.excused, paused)
		if err := c.byPid[paused].Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		cut, after := c.leader(lines, killed, paused)
		if err := c.byPid[paused].Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.stopped(paused, lines)

		c.proxy[cut].Set(servers.State{DropRequests: true, DropReplies: true})
		c.stopped(cut, after)
		next, _ := c.leader(after, cut)
		c.proxy[cut].Set(servers.State{})
		t.Logf("led: %d (killed), %d (paused), %d (cut off), %d", killed, paused, cut, next)
	}
	history := c.runs()
	found := twoLeaders(history, c.excused)
	for _, line := range found {
		t.Error(line)
	}
	counted.twoLeaders += len(found)
	refused, _ := c.client.Get(t.Context(), "refused").Int()
	t.Logf("%d lines, %d writes of late leaders refused by their token", len(history), refused)
	proved(t, "client-go", 0)
}
