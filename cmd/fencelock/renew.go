// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/fencelock/fencelock"
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

The keeper renews the lock in the store by itself; this is about --max. The exit code is
76 if the lock was lost or its time was over.`,
		Example: `  fencelock renew || exit 1
  fencelock renew --for 30m`,
		Args: exactly(0, "no arguments; the handle is in FENCELOCK_HANDLE"),
		RunE: func(*cobra.Command, []string) error {
			if more < 0 {
				return usage("--for takes a positive time")
			}
			reply, err := a.ask(handle, keeperRequest{Op: "renew", ForMS: more.Milliseconds()})
			if err != nil {
				return err
			}
			if a.format == "json" {
				return printJSON(a.out, reply)
			}
			a.note("%s is held, token %v, for %s more", reply.Lock, reply.Token, short(time.Duration(reply.KeptMS)*time.Millisecond))
			return nil
		},
	}
	cmd.Flags().DurationVar(&more, "for", 0, "hold it for this long from now on")
	cmd.Flags().StringVar(&handle, "handle", "", "what acquire printed (default $FENCELOCK_HANDLE)")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

// ask asks the keeper behind a handle.
func (a *app) ask(handle string, req keeperRequest) (keeperReply, error) {
	if handle == "" {
		handle = os.Getenv("FENCELOCK_HANDLE")
	}
	if handle == "" {
		return keeperReply{}, usage("which lock? Set FENCELOCK_HANDLE to what fencelock acquire printed, or give --handle")
	}
	conn, err := net.DialTimeout("unix", handle, a.timeout)
	if err != nil {
		// The keeper has ended: its time was over, or somebody killed it. Either way
		// nobody renews the lock.
		return keeperReply{}, fmt.Errorf("nobody keeps the lock any more (%w): %w", err, fencelock.ErrLost)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * a.timeout))
	var reply keeperReply
	err = json.NewEncoder(conn).Encode(req)
	if err == nil {
		err = json.NewDecoder(conn).Decode(&reply)
	}
	if err != nil {
		return keeperReply{}, &failure{exitInternal, fmt.Errorf("the keeper does not answer: %w", err)}
	}
	if reply.Error != "" {
		return reply, &failure{reply.Code, errors.New(reply.Error)}
	}
	return reply, nil
}
