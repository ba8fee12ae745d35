// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fencelock/fencelock/driver"
	"github.com/spf13/cobra"
)

func (a *app) settingsCommand() *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "settings [NAME=VALUE]",
		Short: "Show the settings of a namespace, or change one",
		Long: `Show the settings that all processes of a namespace obey, or change one.

  grace     after a data loss no new lock is granted until every earlier lease must have
            ended
  max_ttl   how long that takes: the longest TTL of any process

A process that asks for more (grace=true, a longer max_ttl in its URL) switches it on by
itself, while others run: deploy one after another. This command is for what makes a
promise weaker. It is done only when no process asks for more; the error says how many
do. It is refused in the grace period after a data loss, when some may not be back yet.

Raise max_ttl with care: with grace, nothing new is granted until that long after the
last data loss, or after the first use. A database refuses to undo it until then.

With --new the namespace is set up as one that no process has ever used, with the
settings of the URL, so that the first lock does not wait for a grace period. Use it only
if you know that: an empty server looks the same after it has lost all its locks.

The exit code is 0, 64 if the change is refused, and 69 if the store did not answer.`,
		Example: `  fencelock settings
  fencelock settings max_ttl=15s
  fencelock settings grace=false`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || fresh && len(args) > 0 {
				return usage("give one NAME=VALUE, or --new, or nothing")
			}
			if len(args) == 1 && !strings.Contains(args[0], "=") {
				return usage("%s is not NAME=VALUE, such as grace=true", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.settings(cmd.Context(), args, fresh) },
	}
	cmd.Flags().BoolVar(&fresh, "new", false, "set up a namespace that no process has ever used")
	a.formatFlag(cmd, "table", "json")
	return cmd
}

// settings shows the settings after what was asked for is done.
func (a *app) settings(ctx context.Context, change []string, fresh bool) error {
	from, err := a.urlOfStore()
	if err != nil {
		return err
	}
	store, err := a.openToRead(ctx, from, a.ns)
	if err != nil {
		return err
	}
	defer store.Close()
	s, ok := store.OpenedStore.(driver.Configurer)
	if !ok {
		if strings.HasPrefix(store.Caps().Engine, "quorum") {
			return usage("each server of a quorum has its own settings: run this with redis://HOST for each")
		}
		return usage("%s has no settings: nothing of it depends on a namespace", store.Caps().Engine)
	}
	call, cancel := context.WithTimeout(ctx, 4*a.timeout)
	defer cancel()
	switch {
	case fresh:
		err = s.Begin(call)
	case len(change) == 1:
		name, value, _ := strings.Cut(change[0], "=")
		err = s.Configure(call, name, value)
	}
	if err != nil && exitCode(err) != exitUnavailable {
		return withCode(exitUsage, err) // refused, or not a setting
	}
	if err != nil {
		return err
	}
	all, err := s.Settings(call)
	if err != nil {
		return err
	}
	if a.format == "json" {
		return printJSON(a.out, settingsView(all))
	}
	return writeSettings(a.out, all)
}

// settingView is a setting as JSON.
type settingView struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Asked  string `json:"asked"`
	Change string `json:"change"`
}

func settingsView(all []driver.Setting) []settingView {
	view := []settingView{}
	for _, s := range all {
		view = append(view, settingView(s))
	}
	return view
}

// writeSettings is the view for people.
func writeSettings(w io.Writer, all []driver.Setting) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no process has used the namespace yet; the first one sets it up with what its URL asks for")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SETTING\tNAMESPACE\tTHIS URL\tCHANGE")
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Name, s.Value, s.Asked, s.Change)
	}
	return t.Flush()
}
