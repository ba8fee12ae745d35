// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/spf13/cobra"
)

func TestMan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := bounded(t, "go", "run", "-tags", "man", ".", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "fencelock-run.1"))
	must.OK(t, err)
	contains(t, string(text), "FENCELOCK", "stop-time")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		contains(t, fencelockCLI(t, "", "completion", shell).want(0).out.String(), "fencelock")
	}
}

// goName is an identifier of Go, which the help of the command must not have.
var goName = regexp.MustCompile(`\b(Options|fencelock|driver|\w+store)\.[A-Z]`)

// TestHelp: every command says what it does, with an example and its exit codes, without
// names of Go, and its lines fit a terminal.
func TestHelp(t *testing.T) {
	root := (&app{}).root()
	var all []*cobra.Command
	all = append(all, root)
	all = append(all, root.Commands()...)
	for _, cmd := range all {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if len(cmd.Long) < 40 || cmd.Short == "" && cmd != root {
			t.Errorf("%s: what does it do?", cmd.Name())
		}
		if cmd.Runnable() && cmd.Example == "" && cmd != root {
			t.Errorf("%s has no example", cmd.Name())
		}
		if asksTheStore := cmd.GroupID != "more" && cmd != root && cmd.Name() != "top"; asksTheStore && !strings.Contains(cmd.Long, "exit code") {
			t.Errorf("%s: which exit codes?", cmd.Name())
		}
		if found := goName.FindString(cmd.Long + cmd.Flags().FlagUsages()); found != "" {
			t.Errorf("%s has %s in its help", cmd.Name(), found)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 90 {
				t.Errorf("%s: a line of %d: %s", cmd.Name(), n, line)
			}
		}
	}
	contains(t, fencelockCLI(t, "", "help", "stores").want(0).out.String(), "redis://", "grace=true", "FENCELOCK_CONFIG")
	contains(t, fencelockCLI(t, "", "help", "exit-codes").want(0).out.String(), "75  not acquired", "76  lost")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	out := fencelockCLI(t, "", "version").want(0).out.String()
	contains(t, out, "fencelock ", runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH+"\n")
	fencelockCLI(t, "", "version", "more").want(exitUsage)
}
