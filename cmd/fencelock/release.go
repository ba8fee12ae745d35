// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/spf13/cobra"
)

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
