// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestSuspendedTimeIsReadFromTheKernel runs itself in a time namespace, whose boot clock is a day
// ahead while its monotonic clock is not: that is how a machine looks that was suspended for a
// day. Other tests replace machineSuspended, and a machine that tests is never suspended.
func TestSuspendedTimeIsReadFromTheKernel(t *testing.T) {
	const inside = "FENCELOCK_TEST_IN_A_TIME_NAMESPACE"
	if os.Getenv(inside) != "" {
		os.Stdout.WriteString("suspended=" + machineSuspended().String() + "\n")
		return
	}
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--time", "--boottime", "86400",
		os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	_, text, found := strings.Cut(string(out), "suspended=")
	if !found {
		t.Skipf("no time namespace: %v: %s", err, out)
	}
	text, _, _ = strings.Cut(text, "\n")
	got, err := time.ParseDuration(text)
	must.OK(t, err)
	if d := got - machineSuspended(); d < 24*time.Hour-time.Second || d > 24*time.Hour+time.Second {
		t.Errorf("suspended for %v more than outside the namespace, want 24h", d)
	}
}
