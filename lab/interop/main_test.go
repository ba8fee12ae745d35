// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/checkout"
	"github.com/fencelock/fencelock/lab/internal/fleet"
)

var (
	all     = flag.Bool("interop.all", false, "run with every version")
	figures = flag.Bool("interop.figures", false, "measure how soon waiters are woken")
	torture = flag.Duration("interop.torture", 5*time.Second, "how long a mixed fleet runs for each format")
	page    = flag.String("interop.page", "", "write the matrix to this file")
	pages   = flag.String("interop.keep", "", "pages of other runs, separated by commas, whose cells the matrix keeps")

	processes = flag.Int("interop.processes", 3, "how many processes a fleet has that moves")
	rounds    = flag.Int("interop.rounds", 1, "how often a fleet moves to fencelock and back")
)

func TestMain(m *testing.M) {
	fleet.Child(openNative)
	if len(os.Args) > 1 {
		if run := map[string]func([]string) error{etcdPeerWord: runConcurrencyPeer, goPeerWord: runGoPeer}[os.Args[1]]; run != nil {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			return
		}
	}
	flag.Parse()
	began := time.Now()
	code := m.Run()
	if *page != "" {
		var others []string
		if *pages != "" {
			others = strings.Split(*pages, ",")
		}
		if commit := checkout.Commit("."); commit != "" {
			results.commit = ", commit " + commit
		}
		if err := results.write(*page, began, others...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if c := results.counts(); c.played+c.kept > 0 {
		results.print(c)
	}
	os.Exit(code)
}

// chosen are the versions to run with.
func chosen() []string {
	if *all {
		return versions
	}
	return []string{newest}
}

// compareVersions compares versions such as 3.27.2.
func compareVersions(x, y string) int {
	a, b := strings.Split(x, "."), strings.Split(y, ".")
	for i := range min(len(a), len(b)) {
		m, _ := strconv.Atoi(a[i])
		n, _ := strconv.Atoi(b[i])
		if c := cmp.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// redisServer starts a server that ends with the test.
func redisServer(t testing.TB) *servers.RedisServer {
	t.Helper()
	if err := servers.Redis.Need(); err != nil {
		t.Skip(err)
	}
	return servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	must.OK(t, err)
	return n
}

// byHand leaves a test to make interop: it shows what does not change with our code, or repeats with another library
// what a test of CI shows with one.
func byHand(t *testing.T) {
	t.Helper()
	if !*all {
		t.Skip("make interop runs it")
	}
}
