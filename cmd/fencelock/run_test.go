// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	for _, tt := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"ran", []string{"run", "a", "--", "true"}, 0, ""},
		{"its own", []string{"run", "a", "--", "sh", "-c", "exit 7"}, 7, ""},
		{"by a signal", []string{"run", "a", "--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{"not found", []string{"run", "a", "--", "no-such-command"}, 127, "not found"},
		{"not executable", []string{"run", "a", "--", "/dev/null"}, 126, "cannot be executed"},
		{"no command", []string{"run", "a"}, 64, "after --"},
		{"two locks", []string{"run", "a", "b", "--", "true"}, 64, "one lock"},
		{"unknown flag", []string{"run", "a", "--nope", "--", "true"}, 64, "see fencelock run --help"},
		{"unknown command", []string{"runn"}, 64, `unknown command "runn" (did you mean "run"?)`},
		{"stop time too long", []string{"run", "a", "--stop-time", "5s", "--", "true"}, 64, "4.45s at most, or use --ttl 17s"},
		{"margin too long", []string{"run", "a", "--margin", "8s", "--", "true"}, 64, "at least half"},
		{"TTL too long", []string{"run", "a", "--ttl", "5m", "--", "true"}, 64, "at most 1m0s; max_ttl=5m0s in the URL"},
		{"try and wait", []string{"run", "a", "--try", "--wait", "1s", "--", "true"}, 64, "--try does not wait"},
		{"wait for nothing", []string{"run", "a", "--wait", "0s", "--", "true"}, 64, "positive time"},
		{"acquire for nothing", []string{"acquire", "a", "-w", "0"}, 64, "positive time"},
		{"store that may lose data", []string{"run", "a", "--correctness", "--", "true"}, 64, "may lose a grant"},
		{"empty name", []string{"run", "", "--", "true"}, 64, "1 to 512 bytes"},
		{"name of an occurrence too long", []string{"run", strings.Repeat("a", 500), "--once-per", "1h", "--", "true"}, 64, "1 to 512 bytes"},
		{"reason too long", []string{"run", "a", "--reason", strings.Repeat("a", 5000), "--", "true"}, 64, "shorten"},
		{"acquire an empty name", []string{"acquire", ""}, 64, "1 to 512 bytes"},
		{"why with an empty name", []string{"why", ""}, 64, "1 to 512 bytes"},
		{"why an empty name", []string{"why", ""}, 64, "1 to 512 bytes"},
		{"break an empty name", []string{"break", "", "--token", "1", "--reason", "x"}, 64, "1 to 512 bytes"},
		{"status descriptor closed", []string{"run", "a", "--status-fd", "99", "--", "true"}, 64, "not open"},
		{"database without migrate", []string{"--store", "mysql://x/y?migrate=perhaps", "run", "a", "--", "true"}, 64, "true or false"},
		{"unknown store", []string{"--store", "tape://secret@x", "run", "a", "--", "true"}, 64, "redis://"},
		{"no server", []string{"--store", "redis://:secret@127.0.0.1:1", "run", "a", "--", "true"}, 69, "unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fencelockCLI(t, s.url(), tt.args...).want(tt.code)
			contains(t, p.err.String(), tt.text)
			// What acquire prints is for eval, and makes it fail.
			if p.out.String() != "" && tt.args[0] != "acquire" {
				t.Errorf("stdout is for data: %q", p.out.String())
			}
			if strings.Contains(p.err.String(), "secret") {
				t.Errorf("a secret is shown: %s", p.err.String())
			}
		})
	}
	if _, err := openStore(t.Context(), "", "", driver.OpenOptions{}); exitCode(err) != exitUsage {
		t.Errorf("no store: %v", err)
	}
}

// TestRunPassesInputAndEnvironment: stdin, the lease, and the inner of two locks.
func TestRunPassesInputAndEnvironment(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	path, err := binary()
	must.OK(t, err)
	script := `read line; echo "$line $FENCELOCK_NAME $FENCELOCK_OWNER"; outer=$FENCELOCK_TOKEN
		` + path + ` run inner -- sh -c 'echo "$FENCELOCK_NAME $FENCELOCK_OWNER $FENCELOCK_TOKEN"'; echo $outer`
	p := beginWith(t, s.url(), func(c *exec.Cmd) { c.Stdin = strings.NewReader("hello\n") },
		"run", "outer", "--owner", "me", "--", "sh", "-c", script).want(0)
	lines := strings.Fields(p.out.String())
	if len(lines) != 7 || lines[0] != "hello" || lines[1] != "outer" || lines[2] != "me" || lines[3] != "inner" || lines[4] == "me" || lines[5] == lines[6] {
		t.Errorf("got %q", lines)
	}
}

// TestRunTry: busy is not broken, and the holder is named.
func TestRunTry(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, &fencelock.Options{Owner: "web-7"})
	l, err := c.Mutex("a", fencelock.Reason("spring cleaning")).Lock(t.Context())
	must.OK(t, err)
	file := filepath.Join(t.TempDir(), "status")
	p := fencelockCLI(t, s.url(), "run", "a", "--try", "--status-file", file, "--", "true").want(75)
	contains(t, p.err.String(), "web-7", "spring cleaning")
	st := readStatus(t, file)
	if st.Outcome != "busy" || st.ExitCode != 75 || st.Holder == nil || st.Holder.Owner != "web-7" || st.Holder.Token != l.Token() {
		t.Errorf("got %+v", st)
	}
	fencelockCLI(t, s.url(), "run", "a", "-n", "-E", "9", "--", "true").want(9)
	p = fencelockCLI(t, s.url(), "run", "a", "--wait", "3s", "--status-file", file, "--", "true").want(75)
	contains(t, p.err.String(), "a: the lock did not become free in time (--wait 3s): held by web-7")
	if st := readStatus(t, file); st.Outcome != "timeout" || st.WaitedMS < 3000 {
		t.Errorf("got %+v", st)
	}
	if st, err := c.Inspect(t.Context(), "a"); err != nil || st.Waiting != 0 {
		t.Errorf("left behind: %+v, %v", st, err)
	}
}

// TestWaitForAStoreThatIsAway: a store that does not answer is not a lock that is held.
func TestWaitForAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	var links []string
	for range 3 {
		link := newProxy(t, s.addr)
		link.cut()
		links = append(links, link.addr)
	}
	file := filepath.Join(t.TempDir(), "status")
	// One is asked when it is opened, the other only when a lock is wanted.
	for _, url := range []string{"redis://" + links[0], "quorum://" + strings.Join(links, ",")} {
		p := fencelockCLI(t, url, "run", "a", "--wait", "300ms", "--status-file", file, "--", "true").want(69)
		contains(t, p.err.String(), "unavailable")
		if st := readStatus(t, file); st.Outcome != "unavailable" || st.ExitCode != 69 || st.WaitedMS < 300 {
			t.Errorf("got %+v", st)
		}
		fencelockCLI(t, url, "acquire", "a", "--wait", "300ms").want(69)
	}
}

func readStatus(t testing.TB, file string) status {
	t.Helper()
	text, err := os.ReadFile(file)
	var st status
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return st
}

// TestRunStatusDescriptor: the reader gets the status and then the end, although
// a daemon of the command lives on.
func TestRunStatusDescriptor(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer r.Close()
	pid := filepath.Join(t.TempDir(), "pid")
	p := beginWith(t, s.url(), func(c *exec.Cmd) { c.ExtraFiles = []*os.File{w} },
		"run", "a", "--status-fd", "3", "--", "sh", "-c", "setsid sh -c 'echo $$ >"+pid+"; exec sleep 300' >/dev/null 2>&1 & while [ ! -s "+pid+" ]; do sleep 0.02; done; exit 3").want(3)
	_ = w.Close()
	daemon := pidIn(t, pid)
	defer func() { _ = syscall.Kill(daemon, syscall.SIGKILL) }()
	if !alive(daemon) {
		t.Error("the daemon is dead")
	}
	_ = r.SetReadDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(r) // to the end, not only to the end of the line
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	var st status
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if st.Outcome != "ran" || st.ExitCode != 3 || st.Child == nil || st.Child.Code != 3 || st.Token <= 0 || st.Lock != "a" || st.Owner == "" {
		t.Errorf("got %+v, stderr %s", st, p.err.String())
	}
}

// TestRunInterruptedWhileWaiting: the command is never started and nothing is left.
func TestRunInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	l, err := c.Mutex("a").Lock(t.Context())
	must.OK(t, err)
	started := filepath.Join(t.TempDir(), "started")
	p := begin(t, s.url(), "run", "a", "--", "touch", started)
	until(t, "it waits", func() bool { return strings.Contains(p.err.String(), "waiting for a: held by") })
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	p.want(130)
	must.OK(t, l.Unlock(t.Context()))
	fencelockCLI(t, s.url(), "run", "a", "--try", "--", "true").want(0)
	if _, err := os.Stat(started); err == nil {
		t.Error("the command was started")
	}
}

// TestRunWaits: the next process gets the lock when the command has ended.
func TestRunWaits(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	log := filepath.Join(t.TempDir(), "log")
	script := "echo in >>" + log + "; echo out >>" + log
	var all []*process
	for range 6 {
		all = append(all, begin(t, s.url(), "run", "a", "--", "sh", "-c", script))
	}
	for _, p := range all {
		p.want(0)
	}
	text, err := os.ReadFile(log)
	if err != nil || string(text) != strings.Repeat("in\nout\n", 6) {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestRunPermitsAndShared(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	for _, kind := range [][]string{{"--permits", "2"}, {"--shared"}} {
		name := "lock" + kind[0]
		args := append([]string{"run", name, "--try"}, kind...)
		hold := begin(t, s.url(), append(args, "--", "sleep", "60")...)
		until(t, "it is held", func() bool { st, err := c.Inspect(t.Context(), name); return err == nil && len(st.Holders) == 1 })
		fencelockCLI(t, s.url(), append(args, "--", "true")...).want(0)
		fencelockCLI(t, s.url(), "run", name, "--try", "--", "true").want(75)
		_ = hold.cmd.Process.Signal(syscall.SIGTERM)
		hold.want(143)
	}
}

// TestOccurrencesAreOfOncePer: a name with an @ may be of any program.
func TestOccurrencesAreOfOncePer(t *testing.T) {
	locks := []string{"db@replica-1", "db@2026-11-16T00:00:00Z", "other@2026-11-16T00:00:00Z", "db"}
	if got, want := occurrencesOf("db", slices.Values(locks)), "run --once-per has recorded db@2026-11-16T00:00:00Z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunOncePer(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	// A stretch of hours: the test must not cross the end of one. It may, once in
	// 10,000 hours.
	run := func(name string, more ...string) *process {
		return fencelockCLI(t, s.url(), append([]string{"run", name, "--once-per", "10000h"}, more...)...)
	}
	file := filepath.Join(t.TempDir(), "status")
	run("a", "--", "true").want(0)
	contains(t, run("a", "--status-file", file, "--", "false").want(0).err.String(), "already ran, started by ")
	// A user may not know the name of the occurrence.
	contains(t, fencelockCLI(t, s.url(), "why", "a").want(0).out.String(), "a: free\nrun --once-per has recorded a@")
	if st := readStatus(t, file); st.Outcome != "skipped" || st.ExitCode != 0 || st.Occurrence == "" {
		t.Errorf("got %+v", st)
	}
	run("a", "--fail-if-skipped", "--", "true").want(75)
	run("b", "--", "sh", "-c", "exit 4").want(4)
	run("b", "--", "false").want(0) // a run that failed counts
	// It runs again after an operator broke the mark, as docs/cli.md has it.
	var marks []struct {
		Lock    string
		Holders []struct{ Token string }
	}
	if err := json.Unmarshal([]byte(fencelockCLI(t, s.url(), "ls", "b@", "-o", "json").want(0).out.String()), &marks); err != nil || len(marks) != 1 {
		t.Fatalf("got %v, %v, want one mark", marks, err)
	}
	contains(t, fencelockCLI(t, s.url(), "why", marks[0].Lock).want(0).out.String(), "reserved, not held")
	fencelockCLI(t, s.url(), "break", marks[0].Lock, "--token", marks[0].Holders[0].Token, "--reason", "run it again").want(0)
	run("b", "--", "sh", "-c", "exit 5").want(5)
	run("c", "--retry-failed", "--", "sh", "-c", "exit 4").want(4)
	run("c", "--retry-failed", "--", "true").want(0)
	run("c", "--retry-failed", "--", "false").want(0)
	hold := begin(t, s.url(), "run", "d", "--once-per", "10000h", "--", "sleep", "60")
	until(t, "it runs", func() bool { return fencelockCLI(t, s.url(), "ls", "d@", "-o", "name").want(0).out.String() != "" })
	contains(t, run("d", "--", "sh", "-c", "exit 8").want(0).err.String(), "running elsewhere")
	_ = hold.cmd.Process.Signal(syscall.SIGTERM)
	hold.want(143)
}

// TestRunLeftover: the lock is not given back while something of the command's
// group lives, and what is left is ended.
func TestRunLeftover(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "status")
	p := fencelockCLI(t, s.url(), "run", "a", "--ttl", "10s", "--status-file", file, "--", "sh", "-c",
		`sh -c 'trap "" TERM; echo $$ >`+dir+`/pid; exec sleep 300' & while [ ! -s `+dir+`/pid ]; do sleep 0.01; done; exit 5`).want(5)
	if pid := pidIn(t, dir+"/pid"); alive(pid) {
		t.Error("the lock was given back while a process of the command lived")
	}
	contains(t, p.err.String(), "left processes")
	if st := readStatus(t, file); !st.Leftover || st.Outcome != "ran" || time.Duration(st.HeldMS)*time.Millisecond < time.Second {
		t.Errorf("got %+v", st)
	}
}

// TestRunItsOwnFailure: 1 is a code of the command's; what goes wrong in the program
// itself has 125.
func TestRunItsOwnFailure(t *testing.T) {
	for _, tt := range []struct {
		err     error
		outcome outcome
		code    int
	}{
		{nil, "ran", 0}, {exitSilently(1), "ran", 1}, {errors.New("a bug"), "error", exitInternal}, {usage("no"), "error", exitUsage},
		{errSkipped, "skipped", 0}, {fencelock.ErrBusy, "busy", 9}, {errWaited, "timeout", 9},
	} {
		r := &runner{conflictCode: 9, status: status{Outcome: tt.outcome}}
		if err := r.withExitCode(tt.err); exitCode(err) != tt.code || r.status.ExitCode != tt.code {
			t.Errorf("%v: got %v, %+v, want %d", tt.err, err, r.status, tt.code)
		}
	}
}

func TestBesides(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	for _, tt := range []struct{ err, other, want error }{
		{nil, nil, nil}, {a, a, nil}, {b, nil, b}, {errors.Join(nil, b), nil, errors.Join(b)}, {errors.Join(a, b), a, errors.Join(b)},
	} {
		if got := without(tt.err, tt.other); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%v besides %v: got %v, want %v", tt.err, tt.other, got, tt.want)
		}
	}
}

// TestSignalWithTheGrant: a signal that comes together with the lock is not lost.
func TestSignalWithTheGrant(t *testing.T) {
	r := &runner{signals: make(chan os.Signal, 16)}
	ctx, acquired := r.waiting()
	r.signals <- syscall.SIGUSR1 // asks for nothing
	r.signals <- syscall.SIGTERM
	<-ctx.Done()
	if sig := acquired(); sig != syscall.SIGTERM || acquired() != sig {
		t.Errorf("got %v", sig)
	}
	_, acquired = r.waiting()
	if sig := acquired(); sig != 0 {
		t.Errorf("got %v without a signal", sig)
	}
	r.signals <- syscall.SIGTERM
	if len(r.signals) != 1 {
		t.Error("a signal after the grant was taken away from the command")
	}
}

// TestDefaultDrift: the times of run are those of the client it makes.
func TestDefaultDrift(t *testing.T) {
	c, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	defer c.Close(t.Context())
	if got := c.Guarantees().Drift; got != defaultDrift {
		t.Errorf("the client allows for a drift of %v, run for %v", got, defaultDrift)
	}
}
