// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
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
	warned   bool // of a configuration file that other users can read
}

// execute runs a command line and returns the exit code.
func execute(args []string, out, errOut io.Writer) int {
	silenceDrivers()
	a := &app{out: out, err: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	failEval(cmd, args, out, exitCode(err))
	var e *exitError
	if errors.As(err, &e) && e.raise != 0 {
		signal.Reset(e.raise)
		_ = syscall.Kill(os.Getpid(), e.raise)
		<-time.After(time.Second) // it is on its way
	}
	if !isSilent(err) {
		fmt.Fprintln(errOut, "fencelock:", text.OneLine(err))
		// doctor sets a.quiet itself, for other reasons.
		if step := a.nextStep(err); step != "" && !root.PersistentFlags().Changed("quiet") {
			fmt.Fprintln(errOut, text.Clean(step))
		}
	}
	if e != nil && e.code == exitUsage && cmd != nil {
		fmt.Fprintf(errOut, "see %s --help\n", cmd.CommandPath())
	}
	return exitCode(err)
}

// root is the command with all others below it.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "fencelock",
		Short: "Locks that several machines share, from the shell",
		Long: `fencelock runs commands under a lock that several machines share, kept in a server
you already run, and shows who holds what.

  fencelock run migrate -- ./migrate up           run it, never twice at once
  fencelock run bill --once-per 24h -- ./bill     once a day, from cron on every replica
  fencelock run deploy --try -- make deploy       or print who holds it, and fail
  fencelock ls                                    who holds what
  fencelock why migrate                           who blocks whom

The store is a URL, in FENCELOCK_STORE, in the configuration file or after --store:

  export FENCELOCK_STORE=redis://localhost:6379

Times are written with their unit: 500ms, 30s, 1h30m. Data goes to stdout, everything
else to stderr.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q%s; fencelock --help lists all", args[0], didYouMean(args[0], commandNames(cmd)...))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.storeURL, "store", "", "URL of the store (default $FENCELOCK_STORE; \"fencelock help stores\")")
	f.StringVar(&a.ns, "namespace", "", "namespace in the store, instead of the URL's")
	f.DurationVar(&a.timeout, "timeout", 5*time.Second, "how long one answer may take; at most a third of --ttl")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print nothing on stderr but errors")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	root.AddGroup(&cobra.Group{ID: "hold", Title: "Hold a lock:"}, &cobra.Group{ID: "inspect", Title: "Inspect locks:"},
		&cobra.Group{ID: "check", Title: "Check the store:"}, &cobra.Group{ID: "more", Title: "More:"})
	cobra.EnableCommandSorting = false // they stand in the order in which users need them
	for _, group := range []struct {
		id   string
		cmds []*cobra.Command
	}{
		{"hold", []*cobra.Command{a.runCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand()}},
		{"inspect", []*cobra.Command{a.lsCommand(), a.whyCommand(), a.topCommand(), a.serveCommand(), a.forceUnlockCommand()}},
		{"check", []*cobra.Command{a.doctorCommand(), a.settingsCommand(), a.schemaCommand()}},
		{"more", []*cobra.Command{a.versionCommand(), storesTopic(), exitCodesTopic()}},
		{"", []*cobra.Command{a.grantsCommand(), a.keepCommand()}},
	} {
		for _, cmd := range group.cmds {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	helpForMisspelledTopics(root)
	return root
}

// commandNames are the commands that a user may have meant.
func commandNames(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	return names
}

// endSignals are those that ask the program to end.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// untilSignal is a context that ends with an interrupted error as its cause when
// the program is asked to end.
func untilSignal(parent context.Context) (context.Context, func()) {
	return untilSignalOf(parent, endSignals)
}

// untilSignalOf is untilSignal for some signals.
func untilSignalOf(parent context.Context, signals []os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	go func() {
		select {
		case sig := <-caught:
			cancel(interrupted(sig.(syscall.Signal)))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(caught); cancel(nil) }
}

// note writes a line for people.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, "fencelock: %s\n", text.OneLine(fmt.Errorf(format, args...)))
	}
}

// exactly is the number of arguments a command wants, with words for the error.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s; %s given", cmd.Name(), what, argumentsWere(len(args)))
		}
		return nil
	}
}

// argumentsWere counts arguments in words.
func argumentsWere(n int) string {
	switch n {
	case 0:
		return "no argument was"
	case 1:
		return "1 argument was"
	}
	return fmt.Sprintf("%d arguments were", n)
}

// storesTopic is "fencelock help stores".
func storesTopic() *cobra.Command {
	return &cobra.Command{Use: "stores", Short: "How to name the store: URLs, environment, configuration file", Long: storesHelp()}
}

// exitCodesTopic is "fencelock help exit-codes".
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: `fencelock run ends with the exit code of its command, or 128+N if signal N ended
the command. What happened instead has its own codes:

    0  it worked; with --once-per also: it had run already
    1  doctor or why found something; in other commands than run also what has no
       other code
   64  the command line or the configuration is wrong, or the store cannot do what
       is asked; nothing was done
   69  the store did not answer
   75  not acquired: another client has the lock (choose another code with -E)
   76  lost: the lock was lost, or about to be, and the command was ended; or the
       lock was taken away by an operator while the command ran
   79  not acquired: the store is new or has lost its data, and grants no new lock
       until every earlier lease must have ended (a grace period); try again later
  125  fencelock itself failed
  126  the command cannot be executed
  127  the command was not found
128+N  ended by signal N: the command, or fencelock while it waited

A command may itself use one of these codes. Where that matters use --status-fd or
--status-file, which report in JSON what happened.`}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the release",
		Long: `Print the release, the version of Go that it was built with, and the system it is for.

A program that was built from a checkout, and not from a release, prints "unreleased".`,
		Example: `  fencelock version`,
		Args:    exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, version())
			return err
		},
	}
}

// version is that of the program, as far as it was built with one. The go command
// puts it there when it builds a released module, so no build flag is needed.
func version() string {
	v := "unreleased"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return fmt.Sprintf("fencelock %s, %s, %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
