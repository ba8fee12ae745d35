// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// app is what the commands share: where to write, and the flags of all.
type app struct {
	out, err io.Writer
	storeURL string
	ns       string
	format   string
	timeout  time.Duration
	quiet    bool
}

// execute runs a command line and returns the exit code.
func execute(args []string, out, errOut io.Writer) int {
	a := &app{out: out, err: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	var q quiet
	if !errors.As(err, &q) {
		fmt.Fprintln(errOut, "fencelock:", strings.ReplaceAll(err.Error(), "fencelock: ", ""))
	}
	var f *failure
	if errors.As(err, &f) && f.code == exitUsage && cmd != nil {
		fmt.Fprintf(errOut, "see %s --help\n", cmd.CommandPath())
	}
	return exitCode(err)
}

// root is the command with all others below it.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "fencelock",
		Short: "Locks that several machines share, from the shell",
		Long: `fencelock takes locks that several machines share, kept in a server you already
run, and shows who holds them.

  fencelock run nightly-report -- ./report.sh     run it, but only one at a time
  fencelock run deploy --try -- make deploy       or say who is at it, and fail
  fencelock ls                                    who holds what
  fencelock why nightly-report                    who blocks whom

The store is a URL, in FENCELOCK_STORE, in the configuration file or after --store:

  export FENCELOCK_STORE=redis://localhost:6379`,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q; fencelock --help lists them", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.storeURL, "store", "", "URL of the store (default $FENCELOCK_STORE; \"fencelock help stores\")")
	f.StringVar(&a.ns, "namespace", "", "namespace in the store, instead of the URL's")
	f.DurationVar(&a.timeout, "timeout", 5*time.Second, "how long one answer of the store may take")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "say nothing on stderr but errors")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%w", err) })
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	root.AddGroup(&cobra.Group{ID: "hold", Title: "Hold a lock:"}, &cobra.Group{ID: "look", Title: "Look at locks:"},
		&cobra.Group{ID: "check", Title: "Look at the store:"}, &cobra.Group{ID: "more", Title: "More:"})
	cobra.EnableCommandSorting = false // they stand in the order in which one needs them
	for _, group := range []struct {
		id   string
		cmds []*cobra.Command
	}{
		{"hold", []*cobra.Command{a.runCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand()}},
		{"look", []*cobra.Command{a.lsCommand(), a.inspectCommand(), a.whyCommand(), a.watchCommand(), a.topCommand(), a.breakCommand()}},
		{"check", []*cobra.Command{a.doctorCommand(), a.verifyCommand(), a.benchCommand()}},
		{"more", []*cobra.Command{a.manCommand(root), storesTopic(), exitCodesTopic()}},
		{"", []*cobra.Command{a.keepCommand()}},
	} {
		for _, cmd := range group.cmds {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	return root
}

// untilSignal is a context that ends with an interrupted error as its cause when
// the program is asked to end.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-caught:
			cancel(interrupted{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(caught); cancel(nil) }
}

// note writes a line for people.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, "fencelock: "+format+"\n", args...)
	}
}

// exactly is the number of arguments a command wants, with words for the error.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("it takes %s, and %d arguments were given", what, len(args))
		}
		return nil
	}
}
