// SPDX-License-Identifier: Apache-2.0

//go:build unix

package grace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/rig"
)

// hold is a time in which a member held a name.
type hold struct{ began, ended int64 }

// fleet is processes and what they reported.
type fleet struct {
	t       *testing.T
	ttl     time.Duration
	members []*rig.Child

	mu            sync.Mutex
	holds         map[string][]hold
	refused, lost []string
	others        []string // errors of calls, which may happen while a server is away
}

func newFleet(t *testing.T, ttl time.Duration) *fleet {
	f := &fleet{t: t, ttl: ttl, holds: map[string][]hold{}}
	t.Cleanup(func() {
		for i := range f.members {
			f.stop(i)
		}
	})
	return f
}

// begin starts a member and returns when it has its own lock. Without wait it returns at once.
func (f *fleet) begin(name, url string, wait bool) *rig.Child {
	f.t.Helper()
	ready := make(chan struct{})
	member, err := rig.Start(context.Background(), rig.Command{
		Name: name, Env: []string{envURL + "=" + url, envName + "=" + name, envTTL + "=" + f.ttl.String()}, Stderr: os.Stderr,
		Read: rig.Lines(func(line string) { f.read(name, line, ready) }),
	})
	must.OK(f.t, err)
	if wait {
		select {
		case <-ready:
		case <-time.After(time.Minute):
			f.t.Fatalf("%s has no lock after a minute: %q %q", name, f.refused, f.others)
		}
	}
	return member
}

// read takes a report of a member.
func (f *fleet) read(name, line string, ready chan struct{}) {
	word, rest, _ := strings.Cut(line, " ")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch word {
	case "ready":
		close(ready)
	case "held":
		part := strings.Fields(rest)
		began, _ := strconv.ParseInt(part[1], 10, 64)
		ended, _ := strconv.ParseInt(part[2], 10, 64)
		f.holds[part[0]] = append(f.holds[part[0]], hold{began, ended})
	case "refused":
		f.refused = append(f.refused, name+": "+rest)
	case "lost":
		f.lost = append(f.lost, name+": "+rest)
	default:
		f.others = append(f.others, name+": "+rest)
	}
}

// stop ends a member and waits for it.
func (f *fleet) stop(i int) {
	member := f.members[i]
	if member == nil {
		return
	}
	f.members[i] = nil
	member.Signal(syscall.SIGTERM)
	var exit *exec.ExitError
	if err := member.Finish(30 * time.Second); err != nil && !errors.As(err, &exit) {
		f.t.Error(err)
	}
}

// start starts members.
func (f *fleet) start(n int, url string) {
	f.t.Helper()
	for i := range n {
		f.members = append(f.members, f.begin(fmt.Sprint("v1-", i), url, true))
	}
}

// roll replaces one member after another.
func (f *fleet) roll(url string) {
	f.t.Helper()
	for i := range f.members {
		next := f.begin(fmt.Sprint("v2-", i), url, true)
		f.stop(i)
		f.members[i] = next
	}
}

// end stops all members.
func (f *fleet) end() {
	for i := range f.members {
		f.stop(i)
	}
}

// overlaps is how often a name was held twice at a time.
func (f *fleet) overlaps() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, all := range f.holds {
		slices.SortFunc(all, func(a, b hold) int { return cmp.Compare(a.began, b.began) })
		last := int64(0)
		for _, h := range all {
			if h.began < last {
				n++
			}
			last = max(last, h.ended)
		}
	}
	return n
}

// granted waits until the fleet has been granted so many locks since a time.
func (f *fleet) granted(since time.Time, n int, within time.Duration) time.Time {
	f.t.Helper()
	for until := time.Now().Add(within); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if first, got := f.since(since); got >= n {
			return first
		}
	}
	f.t.Fatalf("no %d grants within %v: %q", n, within, f.others)
	return time.Time{}
}

// since is the first grant after a time, and how many there were.
func (f *fleet) since(at time.Time) (first time.Time, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, all := range f.holds {
		for _, h := range all {
			if began := time.Unix(0, h.began); began.After(at) {
				if n++; first.IsZero() || began.Before(first) {
					first = began
				}
			}
		}
	}
	return first, n
}

// quiet is the longest time between two times in which nothing was granted.
func (f *fleet) quiet(from, to time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	times := []int64{from.UnixNano(), to.UnixNano()}
	for _, all := range f.holds {
		for _, h := range all {
			if h.began > times[0] && h.began < times[1] {
				times = append(times, h.began)
			}
		}
	}
	slices.Sort(times)
	longest := int64(0)
	for i := 1; i < len(times); i++ {
		longest = max(longest, times[i]-times[i-1])
	}
	return time.Duration(longest)
}

// totals are the figures of all tests.
var totals struct{ refused, overlaps, lost int }

// check ends a fleet and adds to the figures.
func (f *fleet) check() {
	f.t.Helper()
	f.end()
	overlaps := f.overlaps()
	if len(f.refused) > 0 || len(f.lost) > 0 || overlaps > 0 {
		f.t.Errorf("%d overlaps, lost %q, refused %q, other errors %q", overlaps, f.lost, f.refused, f.others)
	}
	totals.refused += len(f.refused)
	totals.lost += len(f.lost)
	totals.overlaps += overlaps
	_, n := f.since(time.Time{})
	f.t.Logf("%d grants, %d errors while a server was away", n, len(f.others))
}
