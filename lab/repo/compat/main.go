// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command compat runs tests on every version of every server that it finds, and keeps the
// table of lab/results/versions.md up to date.
//
//	go run ./lab/repo/compat                                everything; hours
//	go run ./lab/repo/compat -only etcd -suite conformance  a part, the other cells stay
//
// It tests the servers of the machine, and those that .ci/servers-new has installed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.dir, "servers", "dist/servers", "folder in which .ci/servers-new has installed servers")
	flag.StringVar(&o.only, "only", "", "test only servers whose name and version begin with one of these, separated by commas: etcd 3.6,Redis")
	flag.StringVar(&o.suites, "suite", "", "run only these, separated by commas: conformance, failover, torture")
	flag.StringVar(&o.page, "write", "lab/results/versions.md", "file with the table")
	flag.BoolVar(&o.missing, "missing", false, "run only cells that were not run on this code, or failed")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

type options struct {
	dir, only, suites, page string
	missing                 bool
}

// run tests what the options ask for and writes the table after every cell: a run takes
// long, and may be ended at any time.
func run(o options) error {
	logs, err := os.MkdirTemp("", "compat")
	if err != nil {
		return err
	}
	fmt.Println("compat: logs are in", logs)
	commit, err := head(o.page)
	if err != nil {
		return err
	}
	found, err := find(o.dir)
	if err != nil {
		return err
	}
	failed := 0
	var broken []string
	for _, v := range found {
		for _, s := range suites {
			if !begins(o.only, v.title()) || !begins(o.suites, string(s)) {
				continue
			}
			text, err := os.ReadFile(o.page)
			if err != nil {
				return err
			}
			if o.missing {
				if there, err := v.measured(string(text), s); err != nil {
					return err
				} else if there {
					continue
				}
			}
			log := filepath.Join(logs, strings.ReplaceAll(v.title(), " ", "-")+"-"+string(s))
			fmt.Printf("compat: %s: %s\n", v.title(), s)
			c, err := v.test(s, log)
			if err != nil { // on a busy machine the torture judges nothing; other cells can be run
				fmt.Printf("compat: %s: %s: %v; see %s\n", v.title(), s, err, log)
				broken = append(broken, v.title()+": "+string(s))
				continue
			}
			failed += c.failed
			cell := c.text(time.Now(), commit)
			fmt.Printf("compat: %s: %s: %s\n", v.title(), s, cell)
			if err := update(o.page, v.title(), s, cell); err != nil {
				return err
			}
		}
	}
	if err := printFigures(o.page); err != nil {
		return err
	}
	if len(broken) > 0 {
		return fmt.Errorf("%d tests failed, and these did not end: %s; see %s", failed, strings.Join(broken, ", "), logs)
	}
	if failed > 0 {
		return fmt.Errorf("%d tests failed; see %s", failed, logs)
	}
	return nil
}

// update writes one cell. It reads the page again, because another run may have written to
// it.
func update(page, title string, s suite, cell string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := withCell(string(text), title, s, cell)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(changed), 0o644)
}

// begins reports whether a name begins with one of a list; an empty list has all.
func begins(list, name string) bool {
	return list == "" || slices.ContainsFunc(strings.Split(list, ","), func(prefix string) bool {
		return strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix))
	})
}
