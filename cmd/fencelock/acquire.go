// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (a *app) acquireCommand() *cobra.Command {
	k := &keeper{app: a}
	cmd := &cobra.Command{
		Use:   "acquire LOCK",
		Short: "Hold a lock over several steps of a script",
		Long: `Hold a lock over several steps of a script. Prefer run wherever one command can do the
work: run ends the command when the lock is lost, and acquire cannot end your script.

It waits for the lock, leaves a small process behind that renews it (the keeper), and
prints variables for your shell, as ssh-agent does:

  FENCELOCK_NAME, FENCELOCK_TOKEN, FENCELOCK_OWNER, FENCELOCK_HANDLE

The lock is given back by fencelock release, after --max unless fencelock renew puts
that off, or, with --while, when that process has ended. If the machine dies, the
lock is free after --ttl.

The lock can be lost meanwhile. Then renew and release end with exit code 76, and with
--signal the process of --while is told at once. Give FENCELOCK_TOKEN to what you write
to and refuse smaller ones there.

The handle works on this machine and for this user only.`,
		Example: `  eval "$(fencelock acquire deploy --while $$ --signal 15 --reason "release 4.2")"
  ./step-one && fencelock renew && ./step-two
  fencelock release`,
		Args: exactly(1, "the name of a lock"),
		RunE: func(_ *cobra.Command, args []string) error { return k.start(args[0]) },
	}
	k.flags(cmd)
	a.formatFlag(cmd, "env", "json")
	return cmd
}

// start starts a keeper and waits for its answer.
func (k *keeper) start(name string) error {
	owner := k.owner
	if err := k.wish.check(); err != nil {
		return err
	}
	// Without a name the owner is a process that is there: the one that the lock
	// is bound to, or the keeper.
	if k.owner = owner; owner == "" && k.while > 0 {
		k.owner = defaultOwner(k.while)
	}
	if k.max <= 0 || k.while < 0 || k.signal < 0 || k.signal > 0 && k.while == 0 {
		return usage("--max takes a positive time, and --signal goes with --while")
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
	child, err := k.command(url, name, socket)
	if err != nil {
		return err
	}
	life, err := child.StdinPipe() // open until we have an answer, or are dead
	if err != nil {
		return err
	}
	defer life.Close()
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return &failure{exitInternal, err}
	}
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for sig := range asked {
			_ = child.Process.Signal(sig)
		}
	}()
	var reply keeperReply
	if err := json.NewDecoder(out).Decode(&reply); err != nil {
		return &failure{exitInternal, fmt.Errorf("the keeper ended without an answer: %w", child.Wait())}
	}
	if reply.Error != "" {
		return &failure{reply.Code, fmt.Errorf("%s", reply.Error)}
	}
	return k.tell(reply)
}

// command is the keeper, not yet started.
func (k *keeper) command(url, name, socket string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self, append([]string{keepArg}, k.arguments(name, socket)...)...)
	child.Env = append(os.Environ(), "FENCELOCK_STORE="+url) // not where everybody can read it
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // outlives the terminal
	return child, nil
}

// arguments are those of the keeper: what was given to us.
func (k *keeper) arguments(name, socket string) []string {
	args := []string{"--owner", k.owner, "--ttl", k.ttl.String(), "--max", k.max.String(),
		"--while", fmt.Sprint(k.while), "--signal", fmt.Sprint(k.signal), "--reason", k.reason, "--permits", fmt.Sprint(k.permits),
		"--timeout", k.timeout.String(), "--namespace", k.ns,
		fmt.Sprintf("--try=%v", k.try), "--wait", k.wait.String(), fmt.Sprintf("--shared=%v", k.shared),
		fmt.Sprintf("--correctness=%v", k.correct), fmt.Sprintf("--quiet=%v", k.quiet)}
	return append(args, "--", name, socket)
}

func (k *keeper) tell(r keeperReply) error {
	if k.format == "json" {
		return printJSON(k.out, r)
	}
	for _, pair := range [][2]string{{"NAME", r.Lock}, {"TOKEN", r.Token.String()}, {"OWNER", r.Owner}, {"HANDLE", r.Handle}} {
		if _, err := fmt.Fprintf(k.out, "FENCELOCK_%s=%s; export FENCELOCK_%s\n", pair[0], quoted(pair[1]), pair[0]); err != nil {
			return err
		}
	}
	return nil
}

// quoted writes a text so that a shell reads it as one word.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// newSocket chooses where a keeper listens: a folder of this user's alone.
func newSocket() (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("fencelock-%d", os.Getuid()))
	} else {
		dir = filepath.Join(dir, "fencelock")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Somebody else may have made it: whoever can open the socket can give the
	// lock back.
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", err
	}
	if int(st.Uid) != os.Getuid() || st.Mode&0o777 != 0o700 || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", fmt.Errorf("%s must be a folder that only you can use; remove it, or set XDG_RUNTIME_DIR", dir)
	}
	var id [8]byte
	rand.Read(id[:])
	return filepath.Join(dir, hex.EncodeToString(id[:])), nil
}
