// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/internal/must"
)

// script runs a shell script in which $F is the program.
func script(t testing.TB, store, text string) *process {
	t.Helper()
	path, err := binary()
	must.OK(t, err)
	return beginWith(t, store, func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", text}
		c.Env = append(c.Env, "F="+path)
	})
}

func TestAcquireInAScript(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	p := script(t, s.url(), `set -e
		eval "$($F acquire "it's mine" --reason "step by step" --while $$)"
		echo "$FENCELOCK_NAME/$FENCELOCK_TOKEN/$FENCELOCK_OWNER"
		$F run "it's mine" --try -- true && exit 9
		$F why "it's mine"
		$F release
		$F run "it's mine" --try -- echo free
		$F release || echo "again $?"`).want(0)
	contains(t, p.out.String(), "it's mine/", "step by step", "free", "again 76")
	contains(t, p.err.String(), "it was released")
	if st, err := c.Inspect(t.Context(), "it's mine"); err != nil || len(st.Holders) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestAcquireEnds: a lock that is never released does not stay.
func TestAcquireEnds(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	free := func(name string) {
		t.Helper()
		until(t, name+" is free", func() bool {
			st, err := c.Inspect(t.Context(), name)
			return err == nil && len(st.Holders) == 0
		})
	}
	script(t, s.url(), `eval "$($F acquire bound --while $$)"; $F why bound | grep -q "held by 1"`).want(0)
	free("bound")
	// Whether it is still held when why looks is not up to us: the answer of
	// acquire says that it was.
	p := script(t, s.url(), `$F acquire short --max 1s -o json`).want(0)
	contains(t, p.out.String(), `"lock": "short"`, `"kept_ms"`)
	free("short")
	fencelockCLI(t, s.url(), "acquire", "x", "--while", "999999999").want(64)
	fencelockCLI(t, s.url(), "acquire", "x", "--signal", "15").want(64)
}

// TestAcquireWhileZombie: a process that has ended is gone, even if its parent does not
// wait for it.
func TestAcquireWhileZombie(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere than on Linux a number is all there is")
	}
	s := startRedis(t)
	c := s.client(t, nil)
	parent := exec.Command("sh", "-c", `sleep 300 & echo $!; exec sleep 300`)
	out, err := parent.StdoutPipe()
	if err == nil {
		err = parent.Start()
	}
	must.OK(t, err)
	defer func() { _, _ = parent.Process.Kill(), parent.Wait() }()
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	fencelockCLI(t, s.url(), "acquire", "a", "--while", strconv.Itoa(pid)).want(0)
	if st, err := c.Inspect(t.Context(), "a"); err != nil || len(st.Holders) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
	until(t, "it is given back", func() bool { st, err := c.Inspect(t.Context(), "a"); return err == nil && len(st.Holders) == 0 })
	if syscall.Kill(pid, 0) != nil {
		t.Error("it was collected: the test shows nothing")
	}
}

// TestAcquireLost: a script that holds a lock over several steps is notified that it is gone.
func TestAcquireLost(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := script(t, s.url(), `trap 'echo notified; $F renew; echo "renew $?"; $F release; echo "release $?"; exit 0' TERM
		eval "$($F acquire a --ttl 10s --while $$ --signal 15)"
		$F break a --token $FENCELOCK_TOKEN --reason test
		while :; do sleep 0.05; done`).want(0)
	contains(t, p.out.String(), "notified", "renew 76", "release 76")
	contains(t, p.err.String(), "taken away by an operator")
}

// TestAcquireWaits: busy, in time, and interrupted; no waiter is left.
func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, &fencelock.Options{Owner: "ann"})
	l, err := c.Mutex("a").Lock(t.Context())
	must.OK(t, err)
	contains(t, fencelockCLI(t, s.url(), "acquire", "a", "--try").want(75).err.String(), "ann")
	fencelockCLI(t, s.url(), "acquire", "a", "--wait", "3s").want(75)
	noneWaits := func() bool { st, err := c.Inspect(t.Context(), "a"); return err == nil && st.Waiting == 0 }
	oneWaits := func() bool { st, err := c.Inspect(t.Context(), "a"); return err == nil && st.Waiting == 1 }
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		p := begin(t, s.url(), "acquire", "a")
		until(t, "it waits", oneWaits)
		_ = p.cmd.Process.Signal(sig)
		p.end()
		if sig == syscall.SIGINT {
			p.want(130)
		}
		until(t, "no client waits", noneWaits)
	}
	dir := t.TempDir()
	p := beginWith(t, s.url(), func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir) }, "acquire", "a", "-o", "json")
	until(t, "it waits", oneWaits)
	must.OK(t, l.Unlock(t.Context()))
	var r agent.Reply
	if err := json.Unmarshal([]byte(p.want(0).out.String()), &r); err != nil || !strings.HasPrefix(r.Handle, dir) {
		t.Fatalf("%s: %v", p.out.String(), err)
	}
	fencelockCLI(t, s.url(), "release", "--handle", r.Handle).want(0)
}

// ownerPID is the process id in user@host:pid.
func ownerPID(t testing.TB, owner string) int {
	t.Helper()
	pid, err := strconv.Atoi(owner[strings.LastIndex(owner, ":")+1:])
	if err != nil {
		t.Fatalf("owner %q: %v", owner, err)
	}
	return pid
}

func TestRenew(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p := script(t, s.url(), `set -e
		eval "$($F acquire a --max 5s --while $$)"
		$F renew --for 20m
		$F renew -o json
		sleep 5.5 # longer than --max
		$F why a
		$F renew -q
		$F release`).want(0)
	contains(t, p.out.String(), `"kept_ms": 11`, "held by 1")
	contains(t, p.err.String(), "a is held, token", "for 19m59s more")
	contains(t, fencelockCLI(t, s.url(), "renew").want(64).err.String(), "FENCELOCK_HANDLE")
	contains(t, fencelockCLI(t, s.url(), "renew", "--handle", "/nowhere").want(76).err.String(), "not held any more")
	fencelockCLI(t, s.url(), "renew", "--for", "-1s").want(64)
}

// TestRelease: by the command, and by TERM to the agent; a semaphore's permit too.
func TestRelease(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	p := script(t, s.url(), `eval "$($F acquire a --permits 3)"; $F release -o json`).want(0)
	var r agent.Reply
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || r.Lock != "a" || r.Token <= 0 || r.Error != "" {
		t.Errorf("%s: %v", p.out.String(), err)
	}
	if st, err := c.Inspect(t.Context(), "a"); err != nil || len(st.Holders) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	script(t, s.url(), `eval "$($F acquire b)"`).want(0)
	st, err := c.Inspect(t.Context(), "b")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	must.OK(t, syscall.Kill(ownerPID(t, st.Holders[0].Record.Owner), syscall.SIGTERM))
	until(t, "b is free", func() bool {
		st, err := c.Inspect(t.Context(), "b")
		return err == nil && len(st.Holders) == 0
	})
	contains(t, fencelockCLI(t, s.url(), "release").want(64).err.String(), "FENCELOCK_HANDLE")
}
