// SPDX-License-Identifier: Apache-2.0

// Command testrun is go test for CI: it runs a test that failed once more, alone, and reports
// both. Tests here wait for events, and some must measure: that a holder is notified before its
// lock is granted to another, on a real server, with two cores that are shared with strangers.
// A machine that stands still for a second fails one of some 5,000 tests now and then.
//
//	go run ./lab/repo/testrun -race ./store/...
//
// A second try counts only where a slow machine can be the cause:
//
//	build failure, panic, timeout, data race   fails at once
//	a test binary that exits or is killed      fails at once
//	more than 3 failed tests or subtests       fails at once
//	a test that fails again                    fails
//	a test that passes                         is reported as unsteady, with the first output
//
// A line that starts with "unsteady:" is a bug report: the test or the code is wrong, and the
// line of lab/repo/repotest/findings says which. A line that starts with "skipped:" names the programs that
// tests lacked.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: testrun ARGUMENT... (those of go test)")
		os.Exit(2)
	}
	if err := run(os.Stdout, goTest, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}
