// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/internal/must"
)

// family is a command with a child in its group and one in a new session. If deaf is
// set, all ignore TERM. Each writes its process id.
func family(dir string, deaf bool) []string {
	trap := ""
	if deaf {
		trap = `trap "" TERM; `
	}
	return []string{"sh", "-c", trap + `echo $$ >` + dir + `/self
		sh -c 'echo $$ >` + dir + `/child; exec sleep 300' &
		setsid sh -c 'echo $$ >` + dir + `/stray; exec sleep 300' &
		while :; do sleep 1; done`}
}

func pids(t testing.TB, dir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, who := range []string{"self", "child", "stray"} {
		found[who] = pidIn(t, filepath.Join(dir, who))
	}
	return found
}

func wantDead(t testing.TB, found map[string]int) {
	t.Helper()
	for who, pid := range found {
		until(t, who+" is dead", func() bool { return !alive(pid) })
	}
}

// parent returns the parent of a process.
func parent(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must.OK(t, err)
	_, after, _ := strings.Cut(string(text), ") ")
	ppid, err := strconv.Atoi(strings.Fields(after)[1])
	must.OK(t, err)
	return ppid
}

// wantWithoutSupervisor is the end after the supervisor was killed. It may have died before it had reported that the
// command runs.
func (p *process) wantWithoutSupervisor() {
	p.t.Helper()
	if code := p.end(); code != 137 && code != exitInternal {
		p.t.Errorf("exit code %d: %s", code, p.err.String())
	}
}

// TestRunForwardsSignals: to the command and its children.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	script := `trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo int; exit 0' INT
		sh -c 'trap "echo grandchild usr1" USR1; trap "echo grandchild hup" HUP; echo $$ >` + dir + `/child; while :; do sleep 0.05; done' &
		echo $$ >` + dir + `/self; while :; do sleep 0.05; done`
	p := begin(t, s.url(), "run", "a", "--", "sh", "-c", script)
	self, child := pidIn(t, dir+"/self"), pidIn(t, dir+"/child")
	for sig, name := range map[syscall.Signal]string{syscall.SIGUSR1: "usr1", syscall.SIGHUP: "hup"} {
		_ = p.cmd.Process.Signal(sig)
		until(t, name, func() bool {
			out := "\n" + p.out.String()
			return strings.Contains(out, "\n"+name) && strings.Contains(out, "grandchild "+name)
		})
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	p.want(0)
	contains(t, p.out.String(), "int")
	wantDead(t, map[string]int{"self": self, "child": child})
}

// TestRunUnderNohup: a command under nohup is not ended by HUP, and neither is the
// process above it.
func TestRunUnderNohup(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	p := beginWith(t, s.url(), func(c *exec.Cmd) {
		c.Args = []string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, c.Path, "run", "a", "--",
			"sh", "-c", `trap 'echo usr1' USR1; echo $$ >` + dir + `/self; while :; do sleep 0.05; done`}
		c.Path = "/bin/sh"
	})
	pidIn(t, dir+"/self")
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	_ = p.cmd.Process.Signal(syscall.SIGUSR1)
	until(t, "usr1", func() bool {
		select {
		case <-p.done:
			t.Fatalf("ended with %d by HUP", p.code)
		default:
		}
		return strings.Contains(p.out.String(), "usr1")
	})
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.want(128 + int(syscall.SIGTERM))
}

// TestRunKilledHard: whichever of the two processes above the command is killed,
// nothing of the command survives.
func TestRunKilledHard(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	for _, who := range []string{"holder", "holder's group", "supervisor", "holder and supervisor"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := beginWith(t, s.url(), func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} },
				append([]string{"run", who, "--"}, family(dir, true)...)...)
			found := pids(t, dir)
			holder := p.cmd.Process.Pid
			supervisor := parent(t, found["self"])
			if parent(t, supervisor) != holder {
				t.Fatalf("the supervisor %d is no child of %d", supervisor, holder)
			}
			switch who {
			case "holder":
				_ = syscall.Kill(holder, syscall.SIGKILL)
			case "holder's group":
				_ = syscall.Kill(-holder, syscall.SIGKILL)
			case "supervisor":
				_ = syscall.Kill(supervisor, syscall.SIGKILL)
				p.wantWithoutSupervisor()
			case "holder and supervisor":
				// The documented limit: the command itself dies, what it started
				// may not.
				_, _ = syscall.Kill(supervisor, syscall.SIGKILL), syscall.Kill(holder, syscall.SIGKILL)
				wantDead(t, map[string]int{"self": found["self"]})
				for _, pid := range found {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			wantDead(t, found)
		})
	}
}

// TestRunStopped: a holder that stands still does not keep the command alive, and
// when it goes on it says that the lock is lost.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	dir := t.TempDir()
	p := begin(t, s.url(), append([]string{"run", "a", "--ttl", "10s", "--"}, family(dir, true)...)...)
	found := pids(t, dir)
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	l := lockSoon(t, c, "a")
	for who, pid := range found {
		if alive(pid) {
			t.Errorf("%s lives although another holds the lock", who)
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	p.want(exitLost)
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRunSupervisorStopped: a supervisor that stands still does not keep the command alive
// either. The store does not answer, so that nothing but the clock ends the lock.
func TestRunSupervisorStopped(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	dir := t.TempDir()
	link := newProxy(t, s.addr)
	p := begin(t, "redis://"+link.addr, append([]string{"run", "a", "--ttl", "10s", "--"}, family(dir, true)...)...)
	found := pids(t, dir)
	must.OK(t, syscall.Kill(parent(t, found["self"]), syscall.SIGSTOP))
	link.cut()
	l := lockSoon(t, c, "a")
	for who, pid := range found {
		if alive(pid) {
			t.Errorf("%s lives although another holds the lock", who)
		}
	}
	p.want(exitLost)
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRunBroken: the lock is gone already, so the command is killed at once.
func TestRunBroken(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	dir := t.TempDir()
	file := filepath.Join(dir, "status")
	p := begin(t, s.url(), append([]string{"run", "a", "--ttl", "10s", "--status-file", file, "--"}, family(dir, true)...)...)
	found := pids(t, dir)
	st, err := c.Inspect(t.Context(), "a")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	if _, err := c.ForceUnlock(t.Context(), "a", st.Holders[0].Token); err != nil {
		t.Fatal(err)
	}
	p.want(exitLost)
	wantDead(t, found)
	if got := readStatus(t, file); got.Outcome != "lost" || !strings.Contains(got.Reason, "taken away by an operator") || got.Child == nil || got.Child.Signal != 9 {
		t.Errorf("got %+v", got)
	}
}

// TestRunBrokenAndFailed: the exit code of a command that fails does not hide that its
// lock was gone before it ended.
func TestRunBrokenAndFailed(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	path, err := binary()
	must.OK(t, err)
	file := filepath.Join(t.TempDir(), "status")
	for _, code := range []string{"0", "7"} {
		for _, more := range [][]string{{"--ttl", "60s"}, {"--ttl", "60s", "--once-per", "10000h"}} {
			args := append([]string{"run", "a" + code, "--status-file", file}, more...)
			// Every occurrence is a separate lock; ls finds its name.
			p := fencelockCLI(t, s.url(), append(args, "--", "sh", "-c",
				path+` break "$(`+path+` ls a`+code+` -o name)" --token $FENCELOCK_TOKEN --reason test >/dev/null; exit `+code)...).want(exitLost)
			contains(t, p.err.String(), "taken away by an operator")
			if got := readStatus(t, file); got.Outcome != "lost" || got.ExitCode != exitLost || fmt.Sprint(got.Child.Code) != code && got.Child.Signal != int(syscall.SIGKILL) { // killed if it was slow
				t.Errorf("got %+v", got)
			}
		}
	}
}

// TestRunTermBeforeKill: a command that listens to TERM ends by itself, and what it
// does then is done while the lock is still held.
func TestRunTermBeforeKill(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "status")
	p := begin(t, s.url(), "run", "a", "--ttl", "10s", "--status-file", file, "--",
		"sh", "-c", `trap 'echo cleaned up; exit 0' TERM; echo $$ >`+dir+`/self; while :; do sleep 0.05; done`)
	pidIn(t, dir+"/self")
	s.pause()
	defer s.resume()
	p.want(exitLost)
	contains(t, p.out.String(), "cleaned up")
	contains(t, p.err.String(), "the command gets TERM")
	if got := readStatus(t, file); got.Outcome != "lost" || got.Child == nil || got.Child.Code != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestRunRecovers: a command that did not listen to TERM goes on when the store answers
// again in time; that is reported, because only the command knows that it did not stop halfway.
func TestRunRecovers(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "status")
	p := begin(t, s.url(), "run", "a", "--ttl", "30s", "--status-file", file, "--", "sh", "-c",
		`trap "" TERM; echo $$ >`+dir+`/self; while [ ! -e `+dir+`/end ]; do sleep 0.05; done`)
	pidIn(t, dir+"/self")
	s.pause()
	defer s.resume()
	until(t, "it gets TERM", func() bool { return strings.Contains(p.err.String(), "gets TERM") })
	s.resume()
	until(t, "the lock is renewed", func() bool { return strings.Contains(p.err.String(), "renewed after all") })
	must.OK(t, os.WriteFile(dir+"/end", nil, 0o644))
	p.want(exitLost)
	contains(t, p.err.String(), "ended with 0", "held to the end")
	if got := readStatus(t, file); got.Outcome != "lost" || !got.Recovered || got.Child == nil || got.Child.Code != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestRunSurvivesAShortOutage: a store that is away for less than it takes to lose
// the lock costs nothing.
func TestRunSurvivesAShortOutage(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	p := begin(t, s.url(), "run", "a", "--ttl", "20s", "--", "sh", "-c",
		`echo $$ >`+dir+`/self; while [ ! -e `+dir+`/end ]; do sleep 0.05; done; exit 6`)
	pidIn(t, dir+"/self")
	s.pause()
	<-time.After(4 * time.Second)
	s.resume()
	must.OK(t, os.WriteFile(dir+"/end", nil, 0o644))
	p.want(6)
}

// TestRunAsInit: as process 1 of a container, signals arrive and orphans are reaped.
func TestRunAsInit(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	if out, err := bounded(t, "unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no process namespaces here (%v, %s); as root on Linux: go test ./cmd/fencelock -run TestRunAsInit", err, out)
	}
	path, err := binary()
	must.OK(t, err)
	dir := t.TempDir()
	script := `setsid sh -c 'sleep 0.1 & exit 0'; echo $PPID >` + dir + `/supervisor; echo $$ >` + dir + `/self
		trap 'echo notified; exit 9' TERM; while :; do sleep 0.05; done`
	p := beginWith(t, s.url(), func(c *exec.Cmd) {
		c.Path, _ = exec.LookPath("unshare")
		c.Args = append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", path}, c.Args[1:]...)
	}, "run", "a", "--", "sh", "-c", script)
	pidIn(t, dir+"/self")
	if inside := pidIn(t, dir+"/supervisor"); inside < 2 || inside > 20 {
		t.Errorf("the supervisor is process %d of its namespace", inside)
	}
	// unshare ignores signals; the program is its child.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
	if err != nil {
		t.Skip("the kernel does not list children")
	}
	pid, err := strconv.Atoi(strings.Fields(string(children))[0])
	must.OK(t, err)
	// A process enters from outside and leaves an orphan, as "docker exec" may.
	if out, err := bounded(t, "nsenter", "--target", strconv.Itoa(pid), "--pid", "--mount", "sh", "-c", "sleep 0.2 & exit 0").CombinedOutput(); err != nil {
		t.Errorf("nsenter: %v, %s", err, out)
	}
	until(t, "the orphan is reaped", func() bool {
		children, err := bounded(t, "ps", "--ppid", strconv.Itoa(pid), "-o", "stat=,comm=").CombinedOutput()
		return err == nil && strings.Count(string(children), "\n") == 1 && !strings.Contains(string(children), "Z")
	})
	_ = syscall.Kill(pid, syscall.SIGTERM)
	p.want(9)
	contains(t, p.out.String(), "notified")
}

// TestRunNestedLocks: what the inner of two locks runs dies with the outer one.
func TestRunNestedLocks(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	path, err := binary()
	must.OK(t, err)
	dir := t.TempDir()
	inner := append([]string{path, "run", "inner", "--ttl", "30s", "--"}, family(dir, true)...)
	p := begin(t, s.url(), append([]string{"run", "outer", "--ttl", "10s", "--"}, inner...)...)
	found := pids(t, dir)
	st, err := c.Inspect(t.Context(), "outer")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	in, err := c.Inspect(t.Context(), "inner")
	if err != nil || len(in.Holders) != 1 || in.Holders[0].Record.Labels[lockview.UnderLabel] != st.Holders[0].Record.Owner {
		t.Errorf("the inner lock does not say under which it is: %+v, %v", in, err)
	}
	if _, err := c.ForceUnlock(t.Context(), "outer", st.Holders[0].Token); err != nil {
		t.Fatal(err)
	}
	p.want(exitLost)
	wantDead(t, found)
}

// unshared runs a script in new namespaces; $F is the program.
func unshared(t *testing.T, text string, options ...string) *process {
	t.Helper()
	if out, err := bounded(t, "unshare", append(options, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here (%v, %s); as root on Linux: go test ./cmd/fencelock", err, out)
	}
	path, err := binary()
	must.OK(t, err)
	return beginWith(t, "mem://", func(c *exec.Cmd) {
		c.Path, _ = exec.LookPath("unshare")
		c.Args = append(append([]string{"unshare"}, options...), "sh", "-c", text)
		c.Env = append(c.Env, "F="+path)
	})
}

// TestRunWithoutProc: the processes of the command could not be ended, so it is not
// started.
func TestRunWithoutProc(t *testing.T) {
	t.Parallel()
	p := unshared(t, `mount -t tmpfs none /proc && $F run a -- echo ran`, "--mount", "--fork").want(exitInternal)
	contains(t, p.err.String(), "no /proc")
	if p.out.String() != "" {
		t.Errorf("the command was started: %s", p.out.String())
	}
}

// TestRunWithTheProcOfAnother: in a container that sees the /proc of its host the
// numbers of processes are others. The user is warned of what that means.
func TestRunWithTheProcOfAnother(t *testing.T) {
	t.Parallel()
	const warning = "is not ended when the lock is lost"
	p := unshared(t, `$F run a -- echo ran; exit $?`, "--pid", "--fork", "--kill-child").want(0)
	contains(t, p.err.String(), warning)
	contains(t, p.out.String(), "ran")
	p = unshared(t, `$F run a -- echo ran; exit $?`, "--pid", "--fork", "--kill-child", "--mount-proc").want(0)
	if strings.Contains(p.err.String(), warning) {
		t.Errorf("a warning of its own /proc: %s", p.err.String())
	}
}
