// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/spf13/cobra"
)

func (a *app) forceUnlockCommand() *cobra.Command {
	var token int64
	var reason string
	cmd := &cobra.Command{
		Use:     "force-unlock LOCK --token TOKEN --reason WHY",
		Aliases: []string{"break"},
		Short:   "Take a lock away from its holder",
		Long: `Take a lock away from the holder that has this token, and print the token to fence it
with.

The next waiter gets the lock at once. The old holder is notified at its next renewal,
which is later: until then both believe that they hold it. So first make sure that the
old holder is gone, or that what the lock protects checks tokens: raise its fence to the
printed token, and writes of the old holder are rejected there.

The token makes sure that you end the lease that you inspected, and not one that began
later: then the exit code is 1 and nothing is done. fencelock why LOCK shows it.

The reason is printed with the result, for your records; the store does not keep it.

The exit code is 0 if the lock was taken away, 1 if no holder has the token, and 69 if the
store did not answer.`,
		Example: `  fencelock why report
  fencelock force-unlock report --token 459448191422514432 --reason "web-1 is on fire"`,
		ValidArgsFunction: a.completeLocks,
		Args:              exactly(1, "the name of a lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.forceUnlock(cmd.Context(), args[0], fencelock.Token(token), reason)
		},
	}
	cmd.Flags().Int64Var(&token, "token", 0, "token of the holder, from fencelock why")
	cmd.Flags().StringVar(&reason, "reason", "", "why, printed with the result")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

func (a *app) forceUnlock(ctx context.Context, name string, token fencelock.Token, reason string) error {
	if err := checkName(name); err != nil {
		return err
	}
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer a.close(conn)
	st, err := conn.client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case token == 0 && len(st.Holders) > 0 && st.Holders[0].Token == 0:
		// Nothing of ours could tell its holder, so an operator has to know that it is dead.
		return usage("%s is held by a process of another library, without a token, and only that library can free it; it is free when the lease ends", name)
	case token == 0 && len(st.Holders) > 0:
		h := st.Holders[0]
		return usage("which holder? %s has it%s: --token %v", h.Record.Owner, heldFor(" for ", h.Age), h.Token)
	case token == 0:
		return usage("%s is not held", name)
	case reason == "":
		return usage("--reason is missing: give one for your records")
	}
	v, err := lockview.Break(ctx, conn.client, &st, lockview.BreakRequest{Token: token, Reason: reason, By: defaultOwner(os.Getpid())})
	if errors.Is(err, fencelock.ErrNotHeld) {
		return fmt.Errorf("%s: no holder has token %v; nothing was done (it is %s)", name, token, summary(&st))
	}
	if err != nil {
		return err
	}
	if a.format == "json" {
		return printJSON(a.out, v)
	}
	who := "its holder"
	if v.Holder != nil {
		who = text.Clean(v.Holder.Owner)
	}
	_, err = fmt.Fprintf(a.out, "%s was taken from %s (token %v): %s\nfence the resource with %v\n", name, who, token, reason, v.Fence)
	return err
}
