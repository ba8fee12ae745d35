// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// agentProcess is the process that holds a lease between two commands of a script. It
// ends when the lease was given back, when its time is over, or when the process
// it was bound to is gone.
type agentProcess struct {
	*app
	lockFlags
	ttl    time.Duration
	max    time.Duration // until it must be renewed
	while  int           // a process whose end is the end
	signal int           // is sent to it if the lease is lost

	gone        func() bool          // whether the process of --while has ended
	signalBound func(syscall.Signal) // sends it a signal

	held  agent.Held
	asked chan os.Signal // signals that ask the agent to end
}

// bindByNumber watches a process that is known by its number only.
func bindByNumber(pid int) (gone func() bool, send func(syscall.Signal)) {
	return func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, func(sig syscall.Signal) { _ = syscall.Kill(pid, sig) }
}

// keepArg is the hidden command that is the agent.
const keepArg = "__agent"

func (a *app) keepCommand() *cobra.Command {
	k := &agentProcess{app: a}
	cmd := &cobra.Command{Use: keepArg + " LOCK SOCKET", Hidden: true, Args: exactly(2, "a lock and a socket"),
		RunE: func(_ *cobra.Command, args []string) error { return k.main(args[0], args[1]) }}
	k.flags(cmd)
	return cmd
}

func (k *agentProcess) flags(cmd *cobra.Command) {
	k.lockFlags.flags(cmd.Flags())
	cmd.Flags().DurationVar(&k.ttl, "ttl", fencelock.DefaultTTL, "how long the lock outlives a machine that dies")
	cmd.Flags().DurationVar(&k.max, "max", time.Hour, "release it after this time unless it is renewed")
	cmd.Flags().IntVar(&k.while, "while", 0, "release it when this process has ended; $$ is your script")
	cmd.Flags().IntVar(&k.signal, "signal", 0, "send this signal to the process of --while if the lock is lost; 15 is TERM")
}

// main is the agent. It answers once on stdout, lets go of what it has of its
// starter, and keeps the lease. stdin is a pipe that the starter holds open: its
// end before the answer means that the starter no longer waits for the lock.
func (k *agentProcess) main(name, socket string) error {
	signal.Ignore(syscall.SIGPIPE) // to learn that the starter does not read the answer
	// From here on: between the wait for the lock and its keeping a signal would end the
	// process by its default action, with the lock held until its TTL is over.
	k.asked = make(chan os.Signal, 1)
	signal.Notify(k.asked, endSignals...)
	keep, detach, err := k.prepare(name, socket)
	reply := agent.Reply{Lock: name, Code: exitCode(err)}
	if err == nil {
		reply = k.held.Reply(socket)
	} else {
		reply.Error = text.Plain(err.Error())
	}
	notified := json.NewEncoder(k.out).Encode(reply)
	if err != nil {
		return exitSilently(exitCode(err))
	}
	detach()
	return keep(notified == nil)
}

// prepare gets the lease and does all that can fail before the starter is notified that the
// lock is held: an agent that gave the lock back after that would leave a script that works
// without it.
func (k *agentProcess) prepare(name, socket string) (keep func(wanted bool) error, detach func(), err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, withCode(exitInternal, fmt.Errorf("the agent needs %s: %w", os.DevNull, err))
	}
	keep, err = k.acquire(name, socket)
	if err == nil {
		err = os.Chdir("/") // a file system with a working directory cannot be unmounted
		if err != nil {
			err = errors.Join(err, keep(false))
		}
	}
	return keep, func() {
		defer null.Close()
		for fd := range 3 {
			_ = unix.Dup2(int(null.Fd()), fd) // readers of the standard files wait for their end
		}
	}, err
}

// acquire gets the lease. The returned function keeps it, or gives it back at
// once if the starter is gone.
func (k *agentProcess) acquire(name, socket string) (keep func(wanted bool) error, err error) {
	err = k.lockFlags.check()
	if err == nil {
		err = k.lockFlags.checkLock(name)
	}
	if err != nil {
		return nil, err
	}
	k.gone, k.signalBound = func() bool { return false }, func(syscall.Signal) {}
	if k.while > 0 {
		k.gone, k.signalBound = bind(k.while)
	}
	ctx, stop := k.waiting()
	defer stop()
	notes := newWaitNotes(k.app, name)
	opts := k.lockFlags.client()
	opts.TTL, opts.Hooks.Event = k.ttl, notes.event
	conn, err := k.lockFlags.connect(ctx, k.app, opts)
	if err != nil {
		return nil, err
	}
	endNotes := notes.follow(conn.client)
	lease, err := k.lockFlags.acquire(ctx, conn.client, name, notes.seen.Load)
	endNotes()
	if err != nil {
		k.close(conn)
		return nil, err
	}
	var listen net.Listener
	select {
	case sig := <-k.asked: // together with the grant
		err = interrupted(sig.(syscall.Signal))
	default:
		listen, err = net.Listen("unix", socket)
	}
	if err != nil {
		err = errors.Join(err, lease.Unlock(context.Background()))
		k.close(conn)
		return nil, err
	}
	k.held.Lease, k.held.Owner, k.held.ExitCode = lease, k.owner, exitCode
	k.held.Until(time.Now().Add(k.max))
	return func(wanted bool) error {
		defer k.close(conn)
		defer os.Remove(filepath.Dir(socket))
		defer listen.Close() // removes the socket
		if !wanted {
			return lease.Unlock(context.Background())
		}
		k.keep(listen)
		return nil
	}, nil
}

// waiting is a context that ends when a signal or the end of the starter asks to.
func (k *agentProcess) waiting() (context.Context, func()) {
	ctx, stop := untilSignal(context.Background())
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(interrupted(syscall.SIGHUP))
	}()
	return ctx, stop
}

// keep holds the lease until one of its ends. A lost lease is remembered, so that
// renew and release can report it.
func (k *agentProcess) keep(listen net.Listener) {
	released := make(chan struct{}, 1)
	go k.serve(listen, released)
	lease := k.held.Lease
	lost := lease.Context().Done()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-released:
			return
		case <-lost:
			lost = nil
			if k.signal > 0 && lease.Err() != fencelock.ErrReleased {
				k.signalBound(syscall.Signal(k.signal))
			}
		case <-k.asked:
			_ = lease.Unlock(context.Background())
			return
		case <-tick.C:
			if k.held.Over() || k.gone() {
				_ = lease.Unlock(context.Background())
				return
			}
		}
	}
}

// serve answers renew and release. A client that connects and sends nothing blocks no
// other.
func (k *agentProcess) serve(listen net.Listener, released chan<- struct{}) {
	for {
		conn, err := listen.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(2 * k.timeout))
			if k.held.Converse(conn) {
				select {
				case released <- struct{}{}:
				default: // by another client, too
				}
			}
		}()
	}
}
