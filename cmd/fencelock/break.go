// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/spf13/cobra"
)

func (a *app) breakCommand() *cobra.Command {
	var token int64
	var reason string
	cmd := &cobra.Command{
		Use:   "break LOCK --token TOKEN --reason WHY",
		Short: "Take a lock away from its holder",
		Long: `Take a lock away from the holder that has this token, whoever it is, and print the
token to fence it with.

The next in line gets the lock at once. The old holder is told at its next renewal,
which is later: until then both believe to hold it. So first make sure that the old
holder is gone, or that what the lock protects checks tokens: raise its fence to the
printed token, and the old holder can do no more harm there.

The token makes sure that you break what you looked at, and not a lease that began
meanwhile: then the exit code is 1 and nothing is done. fencelock inspect LOCK shows it.

The reason is printed with the result, for your records; the store keeps none.`,
		Example: `  fencelock inspect nightly-report
  fencelock break nightly-report --token 459448191422514432 --reason "web-1 is on fire"`,
		ValidArgsFunction: a.completeLocks,
		Args:              exactly(1, "the name of a lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.breakLock(cmd.Context(), args[0], fencelock.Token(token), reason)
		},
	}
	cmd.Flags().Int64Var(&token, "token", 0, "token of the holder, from fencelock inspect")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

// breakView is what was done.
type breakView struct {
	Time   time.Time       `json:"time"`
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token"`
	Fence  fencelock.Token `json:"fence"`
	Holder *holderView     `json:"holder,omitempty"`
	By     string          `json:"by"`
	Reason string          `json:"reason"`
}

func (a *app) breakLock(ctx context.Context, name string, token fencelock.Token, reason string) error {
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer a.close(conn)
	st, err := conn.client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(st.Holders, func(h fencelock.Holder) bool { return h.Token.Base() == token.Base() })
	switch {
	case token == 0 && len(st.Holders) > 0:
		h := st.Holders[0]
		return usage("which holder? %s has it for %s: --token %v", h.Record.Owner, short(h.Age), h.Token)
	case token == 0:
		return usage("nobody holds %s", name)
	case reason == "":
		return usage("why? Give a --reason, for those who find out later")
	case st.Grace > 0:
		return fmt.Errorf("%s: the store has a new memory, and what it shows as holder may be one from before; wait %s", name, short(st.Grace))
	}
	v := breakView{Time: time.Now(), Lock: name, Token: token, By: defaultOwner(os.Getpid()), Reason: reason}
	if at >= 0 {
		v.Holder = holderOf(&st.Holders[at])
	}
	v.Fence, err = conn.client.Break(ctx, name, token)
	if errors.Is(err, fencelock.ErrNotHeld) {
		return fmt.Errorf("%s: nobody holds it with token %v; nothing was done (it is %s)", name, token, summary(&st))
	}
	if err != nil {
		return err
	}
	if a.format == "json" {
		return printJSON(a.out, v)
	}
	who := "its holder"
	if v.Holder != nil {
		who = v.Holder.Owner
	}
	_, err = fmt.Fprintf(a.out, "%s was taken from %s (token %v): %s\nfence the resource with %v\n", name, who, token, reason, v.Fence)
	return err
}
