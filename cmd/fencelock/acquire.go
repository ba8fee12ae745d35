// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
)

func (a *app) acquireCommand() *cobra.Command {
	k := &agentProcess{app: a}
	cmd := &cobra.Command{
		Use:   "acquire LOCK",
		Short: "Hold a lock over several steps of a script",
		Long: `Hold a lock over several steps of a script. Prefer run wherever one command can do the
work: run ends the command when the lock is lost, and acquire cannot end your script.

It waits for the lock, leaves a small process behind that renews it (the agent), and
prints variables for your shell, as ssh-agent does:

  FENCELOCK_NAME, FENCELOCK_TOKEN, FENCELOCK_OWNER, FENCELOCK_HANDLE

If it does not get the lock, it prints a line that removes these variables and makes
eval return its exit code. Write || exit after eval, or set -e before it: a shell goes on
after a command that fails.

The lock is released by fencelock release, after --max unless fencelock renew extends
it, or, with --while, when that process has ended. If the machine dies, the lock is
free after --ttl.

The lock can be lost before that. Then renew and release end with exit code 76, and
with --signal the process of --while gets that signal at once. Send FENCELOCK_TOKEN
with every write, and reject smaller tokens where you write to.

The handle works on this machine and for this user only.

The exit code is 0 with the lock, 64 if the command line or the configuration is wrong,
69 if the store did not answer, and 75 if another client has the lock.`,
		Example: `  eval "$(fencelock acquire deploy --while $$ --signal 15 --reason "release 4.2")" || exit
  ./step-one && fencelock renew && ./step-two
  fencelock release`,
		Args: exactly(1, "the name of a lock"),
		RunE: func(_ *cobra.Command, args []string) error { return k.start(args[0]) },
	}
	k.flags(cmd)
	a.formatFlag(cmd, "env", "json")
	return cmd
}

// start starts an agent and waits for its answer.
func (k *agentProcess) start(name string) error {
	owner := k.owner
	if err := k.lockFlags.check(); err != nil {
		return err
	}
	// Without a name the owner is a process that is there: the one that the lock
	// is bound to, or the agent.
	k.owner = owner
	if owner == "" && k.while > 0 {
		k.owner = defaultOwner(k.while)
	}
	switch {
	case k.max <= 0:
		return usage("--max %v: it takes a positive time, such as 1h", k.max)
	case k.while < 0:
		return usage("--while %d: it takes the number of a process, such as $$", k.while)
	case k.signal < 0:
		return usage("--signal %d: it takes the number of a signal, such as 15", k.signal)
	case k.signal > 0 && k.while == 0:
		return usage("--signal needs --while: it names the process that gets the signal")
	}
	if k.while > 0 && syscall.Kill(k.while, 0) == syscall.ESRCH {
		return usage("--while %d: there is no such process", k.while)
	}
	url, err := k.urlOfStore()
	if err != nil {
		return err
	}
	socket, err := newSocket()
	if err != nil {
		return err
	}
	signals := catchSignals()
	reply, err := k.startAgent(url, name, socket, signals)
	if err != nil {
		_ = os.Remove(filepath.Dir(socket)) // unless the agent did
		if sig := signals.caught(); sig != 0 && errors.Is(err, agent.ErrNoAnswer) {
			return interrupted(sig) // the agent died of it before it could answer
		}
		return err
	}
	return k.deliver(&reply, signals)
}

// deliver prints the handle. Without the handle no process could release the lock before
// --max is over, and after a signal the script is to end: then the lock is released.
func (k *agentProcess) deliver(reply *agent.Reply, signals *starterSignals) error {
	signal.Ignore(syscall.SIGPIPE) // to learn that no process reads the handle
	failed := k.print(*reply)
	switch sig := signals.caught(); {
	case failed != nil:
		failed = withCode(exitInternal, fmt.Errorf("the handle of %s could not be written, so the lock is released: %w", reply.Lock, failed))
	case sig != 0:
		failed = interrupted(sig)
	default:
		if terminalWidth(k.out) > 0 {
			k.note("%s", shownHint(reply, k.format, k.max, k.while))
		}
		return nil
	}
	_, err := k.ask(reply.Handle, agent.Request{Op: agent.Release})
	if errors.Is(err, agent.ErrReleased) {
		err = nil // the agent got the signal, too
	}
	return errors.Join(failed, err)
}

// shownHint is for a user whose shell did not read the variables: the lock stays held, and
// nothing in the shell shows it.
func shownHint(r *agent.Reply, format string, most time.Duration, while int) string {
	until := "it is released"
	if while > 0 {
		until = fmt.Sprintf("process %d ends", while)
	}
	hint := fmt.Sprintf("%s is held now, until %s, for at most %s; to release it: fencelock release --handle %s",
		r.Lock, until, text.Short(most), quoted(r.Handle))
	if format != "json" {
		hint += `. The lines above set nothing in your shell: fencelock acquire --help shows the line that does; or use fencelock run`
	}
	return hint
}

// startAgent starts the agent and waits until it has the lock, or an error.
func (k *agentProcess) startAgent(url, name, socket string, signals *starterSignals) (reply agent.Reply, err error) {
	child, err := k.command(url, name, socket)
	if err != nil {
		return reply, err
	}
	renewal, err := child.StdinPipe() // open until we have an answer, or are dead
	if err != nil {
		return reply, err
	}
	defer renewal.Close()
	out, err := child.StdoutPipe()
	if err == nil {
		keepDescriptors() // a pipe or a flock of the script must not live as long as the agent
		err = child.Start()
	}
	if err != nil {
		return reply, withCode(exitInternal, err)
	}
	signals.passTo(child.Process)
	defer signals.passTo(nil)
	return agent.Read(out)
}

// command is the agent, not yet started.
func (k *agentProcess) command(url, name, socket string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self, append([]string{keepArg}, k.arguments(name, socket)...)...)
	child.Env = append(os.Environ(), "FENCELOCK_STORE="+url) // not where every user can read it
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // outlives the terminal
	return child, nil
}

// arguments are those of the agent: what was given to us.
func (k *agentProcess) arguments(name, socket string) []string {
	args := []string{"--owner", k.owner, "--ttl", k.ttl.String(), "--max", k.max.String(),
		"--while", fmt.Sprint(k.while), "--signal", fmt.Sprint(k.signal), "--reason", k.reason,
		"--timeout", k.timeout.String(), "--namespace", k.ns,
		fmt.Sprintf("--try=%v", k.try), fmt.Sprintf("--shared=%v", k.shared),
		fmt.Sprintf("--correctness=%v", k.correct), fmt.Sprintf("--quiet=%v", k.quiet)}
	if k.permits > 0 {
		args = append(args, "--permits", fmt.Sprint(k.permits))
	}
	if k.wait > 0 {
		args = append(args, "--wait", k.wait.String())
	}
	return append(args, "--", name, socket)
}

func (k *agentProcess) print(r agent.Reply) error {
	if k.format == "json" {
		return printJSON(k.out, r)
	}
	for _, pair := range [][2]string{{"NAME", r.Lock}, {"TOKEN", r.Token.String()}, {"OWNER", r.Owner}, {"HANDLE", r.Handle}} {
		// The store gives no tokens. A token in the environment belongs to an outer lock.
		if pair[0] == "TOKEN" && r.Token == 0 {
			fmt.Fprintln(k.out, "unset FENCELOCK_TOKEN")
			continue
		}
		if _, err := fmt.Fprintf(k.out, "FENCELOCK_%s=%s; export FENCELOCK_%s\n", pair[0], quoted(pair[1]), pair[0]); err != nil {
			return err
		}
	}
	return nil
}

// markDescriptors does what keepDescriptors does, one descriptor after the other.
func markDescriptors() {
	const most = 1 << 16
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > most {
		limit.Cur = most
	}
	for fd := range int(limit.Cur) {
		if fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// failEval makes eval fail where acquire has failed, whatever the reason: eval of nothing
// succeeds, and the script would work without the lock. The variables of a lock outside
// are removed, so that renew and release do not mistake it for this one. A misspelled
// acquire, and one after a wrong flag of the program, must not let the script go on either.
func failEval(cmd *cobra.Command, args []string, out io.Writer, code int) {
	switch {
	case cmd == nil:
		return
	case !cmd.HasParent(): // the command was not found: was it to be acquire?
		if !slices.ContainsFunc(args, func(arg string) bool { return driver.Closest(arg, commandNames(cmd)...) == "acquire" }) {
			return
		}
	case cmd.Name() != "acquire" || cmd.Flags().Lookup("output").Value.String() == "json":
		return
	}
	fmt.Fprintf(out, "unset FENCELOCK_NAME FENCELOCK_TOKEN FENCELOCK_OWNER FENCELOCK_HANDLE; (exit %d)\n", code)
}

// quoted writes a text so that a shell reads it as one word.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// newSocket makes a directory that only this user can use, and returns where in it the
// agent listens. It has a new name each time: one with a known name could be taken by
// another user before. A runtime directory that cannot be used is passed over: after su it
// is that of the user before.
func newSocket() (string, error) {
	var failed error
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if base == "" {
			continue
		}
		base, err := filepath.Abs(base) // the script and the agent may be elsewhere later
		if err == nil && len(base)+len("/fencelock-0123456789/agent") > maxSocket {
			err = fmt.Errorf("%s: too long for the path of a socket", base)
		}
		dir := ""
		if err == nil {
			dir, err = os.MkdirTemp(base, "fencelock-")
		}
		if err == nil {
			return filepath.Join(dir, "agent"), nil
		}
		failed = errors.Join(failed, err)
	}
	return "", failed
}

// maxSocket is how long the path of a socket may be: 104 bytes on macOS and the BSDs,
// 108 on Linux, with a zero at the end.
const maxSocket = 103

func (a *app) renewCommand() *cobra.Command {
	var handle string
	var more time.Duration
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Ask whether the lock of acquire is still held, and hold it for longer",
		Long: `Ask whether the lock that fencelock acquire got is still held, and, with --for, hold it
for that long from now on.

The agent of acquire renews the lock in the store by itself; this is about --max. The
exit code is 76 if the lock was lost, was released or its time was over.`,
		Example: `  fencelock renew || exit 1
  fencelock renew --for 30m`,
		Args: exactly(0, "no arguments; the handle is in FENCELOCK_HANDLE"),
		RunE: func(*cobra.Command, []string) error {
			if more < 0 {
				return usage("--for takes a positive time")
			}
			reply, err := a.ask(handle, agent.Request{Op: agent.Renew, ForMS: more.Milliseconds()})
			if err != nil {
				return err
			}
			if a.format == "json" {
				return printJSON(a.out, reply)
			}
			a.note("%s is held, token %v, for %s more", reply.Lock, reply.Token, text.Short(time.Duration(reply.KeptMS)*time.Millisecond))
			return nil
		},
	}
	cmd.Flags().DurationVar(&more, "for", 0, "hold it for this long from now on")
	cmd.Flags().StringVar(&handle, "handle", "", "what acquire printed (default $FENCELOCK_HANDLE)")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

// ask asks the agent behind a handle.
func (a *app) ask(handle string, req agent.Request) (agent.Reply, error) {
	if handle == "" {
		handle = os.Getenv("FENCELOCK_HANDLE")
	}
	if handle == "" {
		return agent.Reply{}, usage("which lock? Set FENCELOCK_HANDLE to what fencelock acquire printed, or give --handle")
	}
	conn, err := net.DialTimeout("unix", handle, a.timeout)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The agent removes its socket when it ends. The exit code is that of a loss even
		// so: if --max was over, another process may have held the lock.
		return agent.Reply{}, agent.ErrReleased
	case errors.Is(err, fs.ErrPermission):
		return agent.Reply{}, usage("the agent that holds the lock belongs to another user, so this one may not ask it; run the command as the user that ran acquire (%v)", err)
	case err != nil:
		return agent.Reply{}, fmt.Errorf("the agent that held the lock does not run any more, so the lock is not renewed (%w): %w", err, fencelock.ErrLost)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * a.timeout))
	err = json.NewEncoder(conn).Encode(req)
	if err != nil {
		return agent.Reply{}, fmt.Errorf("%w: %w", agent.ErrNoAnswer, err)
	}
	return agent.Read(conn)
}

func (a *app) releaseCommand() *cobra.Command {
	var handle string
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Release the lock of acquire",
		Long: `Release the lock that fencelock acquire got.

The exit code is 76 if the lock had been lost before, was released already or its time
was over: then another process may have held it while you worked.`,
		Example: `  fencelock release`,
		Args:    exactly(0, "no arguments; the handle is in FENCELOCK_HANDLE"),
		RunE: func(*cobra.Command, []string) error {
			reply, err := a.ask(handle, agent.Request{Op: agent.Release})
			if err != nil {
				return err
			}
			if a.format == "json" {
				return printJSON(a.out, reply)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&handle, "handle", "", "what acquire printed (default $FENCELOCK_HANDLE)")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

// starterSignals are the signals that ask acquire to end. Before the answer of the agent
// they are the agent's, which waits for the lock. After that the agent must not end by
// them, or the script would work without the lock: the starter itself acts on them.
type starterSignals struct {
	mu    sync.Mutex
	agent *os.Process
	first syscall.Signal
}

// catchSignals begins to catch them, for as long as the process lives.
func catchSignals() *starterSignals {
	s := &starterSignals{}
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, endSignals...)
	go func() {
		for sig := range asked {
			s.caughtOne(sig.(syscall.Signal))
		}
	}()
	return s
}

func (s *starterSignals) caughtOne(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = sig
	}
	if s.agent != nil {
		_ = s.agent.Signal(sig)
	}
}

// passTo sets the process that gets the signals from now on; nil is no process. A signal
// that came before is passed on, too.
func (s *starterSignals) passTo(agent *os.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent = agent
	if agent != nil && s.first != 0 {
		_ = agent.Signal(s.first)
	}
}

// caught returns the first signal that came, or 0.
func (s *starterSignals) caught() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}
