// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// TestAnswered has the answers of redis-server 7.0 and valkey-server 8.0, word for
// word; TestRefusals makes real servers give most of them.
func TestAnswered(t *testing.T) {
	const inScript = " script: 1a2b, on @user_script:1."
	for text, want := range map[string]error{
		"LOADING Redis is loading the dataset in memory":                                                       driver.ErrUnavailable,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":               driver.ErrUnavailable,
		"READONLY You can't write against a read only replica.":                                                driver.ErrUnavailable,
		"READONLY You can't write against a read only replica." + inScript:                                     driver.ErrUnavailable,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                     driver.ErrUnavailable,
		"CLUSTERDOWN The cluster is down":                                                                      driver.ErrUnavailable,
		"CLUSTERDOWN Hash slot not served":                                                                     driver.ErrUnavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                              driver.ErrUnavailable,
		"MOVED 5 127.0.0.1:7000":                                                                               driver.ErrUnavailable,
		"ASK 5 127.0.0.1:7000":                                                                                 driver.ErrUnavailable,
		"OOM command not allowed when used memory > 'maxmemory'." + inScript:                                   driver.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":     driver.ErrUnavailable,
		"NOREPLICAS Not enough good replicas to write." + inScript:                                             driver.ErrUnavailable,
		"ERR max number of clients reached":                                                                    driver.ErrUnavailable,
		"ERR The user executing the script can't run this command or subcommand" + inScript:                    driver.ErrUnknown,
		"ERR ACL failure in script: User locks has no permissions to run the 'hdel' command" + inScript:        driver.ErrUnknown,
		"WRONGTYPE Operation against a key holding the wrong kind of value" + inScript:                         driver.ErrUnknown,
		"ERR user_script:1: attempt to index a nil value" + inScript:                                           driver.ErrUnknown,
		"ERR Error running script (call to f_1a2b): @user_script:1: user_script:1: attempt to index a nil one": driver.ErrUnknown,
		"NOPERM User locks has no permissions to run the 'evalsha' command":                                    nil,
		"NOAUTH Authentication required.":                                                                      nil,
		"WRONGPASS invalid username-password pair or user is disabled.":                                        nil,
		"CROSSSLOT Keys in request don't hash to the same slot":                                                nil,
		"ERR unknown command 'EVALSHA'":                                                                        nil,
		"BUSYGROUP Consumer Group name already exists":                                                         nil,
	} {
		wantMeaning(t, text, Answered(errors.New(text)), want)
	}
}

func TestFailed(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	dial, read := &net.OpError{Op: "dial", Err: io.EOF}, &net.OpError{Op: "read", Err: io.EOF}
	wantMeaning(t, "no connection", Failed(t.Context(), dial), driver.ErrUnavailable)
	wantMeaning(t, "no answer", Failed(t.Context(), read), driver.ErrUnknown)
	wantMeaning(t, "end of the stream", Failed(t.Context(), io.EOF), driver.ErrUnknown)
	err := Failed(ended, read)
	wantMeaning(t, "no answer until the context ended", err, driver.ErrUnknown)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, io.EOF) {
		t.Errorf("the context's error or the connection's is lost: %v", err)
	}
}

// wantMeaning fails unless err means want, and nothing else; nil is a plain error.
func wantMeaning(t *testing.T, what string, err, want error) {
	t.Helper()
	for _, meaning := range []error{driver.ErrUnknown, driver.ErrUnavailable, driver.ErrGone, driver.ErrReset, driver.ErrRefused} {
		if errors.Is(err, meaning) != (meaning == want) {
			t.Errorf("%s: got %v, want it to mean: %v", what, err, want)
		}
	}
}
