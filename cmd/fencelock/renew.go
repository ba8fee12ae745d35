// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/spf13/cobra"
)

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
