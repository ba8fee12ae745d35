// SPDX-License-Identifier: Apache-2.0

// Command evidence runs everything that is measured before a release, one after the other, and writes the page with the
// results, lab/results/evidence.md.
//
//	package runs ──▶ a command ──▶ lab/results/evidence/NAME.txt: commit, time, result, figures
//	                                       │
//	limits.txt: why a goal is missed ──────┴─▶ lab/results/evidence.md
//
// All of it takes many hours. A run whose result is of the code that is checked out is left out, so a second
// call goes on where the first one was stopped.
//
//	go run ./lab/repo/evidence                     # everything that is not there yet: make evidence
//	go run ./lab/repo/evidence -only figures-redis # this, again
//	go run ./lab/repo/evidence -list               # what there is, and what is missing
//	go run ./lab/repo/evidence -page               # the page again, from what is kept
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/lab/internal/checkout"
)

const (
	folder = "lab/results/evidence"
	page   = "lab/results/evidence.md"
)

func main() {
	only := flag.String("only", "", "run these, whether or not they are there; separated by commas")
	list := flag.Bool("list", false, "run nothing, and show what is there")
	write := flag.Bool("page", false, "run nothing, and write "+page)
	logs := flag.String("logs", filepath.Join(os.TempDir(), "fencelock-evidence"), "folder for the whole output of each run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := enter()
	switch {
	case err != nil:
	case *list:
		err = show()
	case *write:
		err = writePage()
	default:
		err = errors.Join(runAll(ctx, *only, *logs), writePage())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "evidence:", err)
		os.Exit(1)
	}
}

// enter goes to the top of the repository.
func enter() error {
	top, err := checkout.Top()
	if err != nil {
		return err
	}
	return os.Chdir(top)
}

// runAll runs what is missing, or what was named, and goes on after a failure: the next run has nothing to do with it.
func runAll(ctx context.Context, only, logs string) error {
	commit := checkout.Commit(".")
	if commit == "" || strings.Contains(commit, "uncommitted") {
		return fmt.Errorf("a result must name its commit, and files are changed: %s", commit)
	}
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.MkdirAll(logs, 0o755)); err != nil {
		return err
	}
	var errs []error
	for i, r := range chosen {
		fmt.Printf("evidence: %d of %d: %s\n", i+1, len(chosen), r.Command)
		res, err := r.do(ctx, commit, filepath.Join(logs, r.Name+".log"))
		if ctx.Err() != nil {
			return errors.Join(append(errs, errors.New("stopped; the run that was under way counts for nothing"))...)
		}
		if err == nil {
			err = res.write()
		}
		if err == nil && !res.passed {
			err = fmt.Errorf("%s failed; its output is in %s", r.Name, filepath.Join(logs, r.Name+".log"))
		}
		fmt.Printf("evidence: %s: %s\n", r.Name, res.line())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// choose returns the runs that were named, or those without a result of this code.
func choose(only string) ([]run, error) {
	if only == "" {
		return missing()
	}
	var chosen []run
	rs := all()
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(rs, func(r run) bool { return r.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no run %q; -list shows them", name)
		}
		chosen = append(chosen, rs[i])
	}
	return chosen, nil
}

// do runs one, as the shell would.
func (r run) do(ctx context.Context, commit, log string) (result, error) {
	out, err := os.Create(log)
	if err != nil {
		return result{}, err
	}
	defer out.Close()
	res := result{run: r, commit: commit, day: time.Now().UTC(), load: loadAverage()}
	cmd := exec.CommandContext(ctx, "bash", "-c", r.Command)
	cmd.Stdout, cmd.Stderr = out, out
	// The whole group ends with it: a command starts servers and clients.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	began, before := time.Now(), now()
	res.passed = cmd.Run() == nil
	res.took, res.stolen = time.Since(began).Round(time.Second), stolen(before, now())
	text, err := os.ReadFile(log)
	res.read(string(text))
	return res, err
}
