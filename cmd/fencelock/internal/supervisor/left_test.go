// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"syscall"
	"testing"
	"time"
)

// TestLeftIsReportedOnlyIfSomethingIsLeft: a command that leaves nothing is not reported to have left processes, however
// long it takes to find that out.
func TestLeftIsReportedOnlyIfSomethingIsLeft(t *testing.T) {
	for range 10 {
		c := begin(t, time.Hour, "exit 3")
		ends(t, c)
		select {
		case <-c.Left():
			t.Error("nothing is left, and something was reported")
		default:
		}
	}
	c := begin(t, time.Hour, "sleep 300 & exit 3")
	select {
	case <-c.Left():
	case <-time.After(patience):
		t.Fatal("it was not reported that a process is left")
	}
	c.Signal(syscall.SIGKILL)
	if e := ends(t, c); e != (Exit{Code: 3}) {
		t.Errorf("got %+v", e)
	}
}
