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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// keeper is the process that holds a lease between two commands of a script. It
// ends when the lease was given back, when its time is over, or when the process
// it was bound to is gone.
type keeper struct {
	*app
	wish
	ttl    time.Duration
	max    time.Duration // until it must be renewed
	while  int           // a process whose end is the end
	signal int           // is sent to it if the lease is lost

	lease *fencelock.Lease
	mu    sync.Mutex
	end   time.Time
}

// keepArg is the hidden command that is a keeper.
const keepArg = "__keep"

// keeperRequest is what renew and release ask, keeperReply what they are told.
type keeperRequest struct {
	Op    string `json:"op"`
	ForMS int64  `json:"for_ms,omitempty"`
}

type keeperReply struct {
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token"`
	Owner  string          `json:"owner"`
	Handle string          `json:"handle,omitempty"`
	// KeptMS is how long it is held from now on if nobody renews it.
	KeptMS int64  `json:"kept_ms,omitempty"`
	Error  string `json:"error,omitempty"`
	Code   int    `json:"code,omitempty"`
}

func (a *app) keepCommand() *cobra.Command {
	k := &keeper{app: a}
	cmd := &cobra.Command{Use: keepArg + " LOCK SOCKET", Hidden: true, Args: exactly(2, "a lock and a socket"),
		RunE: func(_ *cobra.Command, args []string) error { return k.main(args[0], args[1]) }}
	k.flags(cmd)
	return cmd
}

func (k *keeper) flags(cmd *cobra.Command) {
	k.wish.flags(cmd.Flags())
	cmd.Flags().DurationVar(&k.ttl, "ttl", fencelock.DefaultTTL, "how long the lock outlives a machine that dies")
	cmd.Flags().DurationVar(&k.max, "max", time.Hour, "give it back after this time unless it is renewed")
	cmd.Flags().IntVar(&k.while, "while", 0, "give it back when this process has ended; $$ is your script")
	cmd.Flags().IntVar(&k.signal, "signal", 0, "send this signal to the process of --while if the lock is lost; 15 is TERM")
}

// main is the keeper. It answers once on stdout, lets go of what it has of its
// starter, and keeps the lease. stdin is a pipe that the starter holds open: its
// end before the answer means that nobody waits for the lock any more.
func (k *keeper) main(name, socket string) error {
	signal.Ignore(syscall.SIGPIPE) // to learn that nobody reads the answer
	keep, err := k.acquire(name, socket)
	reply := keeperReply{Lock: name, Code: exitCode(err)}
	if err == nil {
		reply = k.reply(socket)
	} else {
		reply.Error = strings.ReplaceAll(err.Error(), "fencelock: ", "")
	}
	told := json.NewEncoder(k.out).Encode(reply)
	if err != nil {
		return quiet(exitCode(err))
	}
	if told == nil {
		told = detach()
	}
	return keep(told == nil)
}

// acquire gets the lease. The returned function keeps it, or gives it back at
// once if nobody wants it.
func (k *keeper) acquire(name, socket string) (keep func(wanted bool) error, err error) {
	if err := k.wish.check(); err != nil {
		return nil, err
	}
	ctx, stop := k.waiting()
	defer stop()
	notes := newWaitNotes(k.app, name)
	opts := k.wish.client()
	opts.TTL, opts.Hooks.Event = k.ttl, notes.event
	conn, err := k.connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	endNotes := notes.follow(conn.client)
	k.lease, err = k.wish.acquire(ctx, conn.client, name)
	endNotes()
	if err != nil {
		k.close(conn)
		return nil, err
	}
	listen, err := net.Listen("unix", socket)
	if err != nil {
		err = errors.Join(err, k.lease.Unlock(ctx))
		k.close(conn)
		return nil, err
	}
	k.end = time.Now().Add(k.max)
	return func(wanted bool) error {
		defer k.close(conn)
		defer listen.Close() // removes the socket
		if !wanted {
			return k.lease.Unlock(context.Background())
		}
		k.keep(listen)
		return nil
	}, nil
}

// waiting is a context that ends when a signal or the end of the starter asks to.
func (k *keeper) waiting() (context.Context, func()) {
	ctx, stop := untilSignal(context.Background())
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(interrupted{syscall.SIGHUP})
	}()
	return ctx, stop
}

// detach lets go of the standard files: whoever reads them waits for their end.
func detach() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := unix.Dup2(int(null.Fd()), fd); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) reply(socket string) keeperReply {
	k.mu.Lock()
	defer k.mu.Unlock()
	return keeperReply{Lock: k.lease.Name(), Token: k.lease.Token(), Owner: k.owner, Handle: socket, KeptMS: time.Until(k.end).Milliseconds()}
}

// keep holds the lease until one of its ends. A lost lease is remembered, so that
// renew and release can tell.
func (k *keeper) keep(listen net.Listener) {
	released := make(chan struct{})
	go k.serve(listen, released)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	lost := k.lease.Context().Done()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-released:
			return
		case <-lost:
			lost = nil
			if k.while > 0 && k.signal > 0 && k.lease.Err() != fencelock.ErrReleased {
				_ = syscall.Kill(k.while, syscall.Signal(k.signal))
			}
		case <-asked:
			_ = k.lease.Unlock(context.Background())
			return
		case <-look.C:
			if k.over() {
				_ = k.lease.Unlock(context.Background())
				return
			}
		}
	}
}

// over says whether it is time to give the lease back.
func (k *keeper) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !time.Now().Before(k.end) || k.while > 0 && errors.Is(syscall.Kill(k.while, 0), syscall.ESRCH)
}

// serve answers renew and release, one after the other.
func (k *keeper) serve(listen net.Listener, released chan<- struct{}) {
	for {
		conn, err := listen.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(2 * k.timeout))
		var req keeperRequest
		if json.NewDecoder(conn).Decode(&req) == nil {
			_ = json.NewEncoder(conn).Encode(k.answer(req))
		}
		_ = conn.Close()
		if req.Op == "release" {
			close(released)
			return
		}
	}
}

func (k *keeper) answer(req keeperRequest) keeperReply {
	reply := k.reply("")
	var err error
	if req.Op == "release" {
		err = k.lease.Unlock(context.Background())
		reply.KeptMS = 0
		if errors.Is(err, fencelock.ErrReleased) {
			err = nil // not confirmed, but over; it ends with the TTL at the latest
		}
	} else {
		if err = k.lease.Err(); err == nil && req.ForMS > 0 {
			k.mu.Lock()
			k.end = time.Now().Add(time.Duration(req.ForMS) * time.Millisecond)
			k.mu.Unlock()
			reply = k.reply("")
		}
	}
	if err != nil {
		reply.Error, reply.Code = strings.ReplaceAll(fmt.Sprintf("%s: %v", k.lease.Name(), err), "fencelock: ", ""), exitCode(err)
	}
	return reply
}
