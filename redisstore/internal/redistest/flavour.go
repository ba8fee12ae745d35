// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os/exec"
	"testing"
)

// Flavour is a kind of server. Both speak the same protocol; scripts, INFO and the
// words of errors are their own.
type Flavour string

// The flavours.
const (
	Redis  Flavour = "redis"
	Valkey Flavour = "valkey"
)

// Flavours are those that everything is tested on.
var Flavours = []Flavour{Redis, Valkey}

// packages says how to get a server that is not there.
var packages = map[Flavour]string{
	Redis:  "apt-get install redis-server",
	Valkey: "apt-get install valkey-server; Debian 12 has it in its backports, from where .ci/run servers installs it",
}

func (f Flavour) binary() string { return string(f) + "-server" }

// Installed says whether the server is there.
func (f Flavour) Installed() bool {
	_, err := exec.LookPath(f.binary())
	return err == nil
}

// Need skips the test if the server is not installed.
func (f Flavour) Need(t testing.TB) {
	t.Helper()
	if !f.Installed() {
		t.Skipf("%s is not installed; on Debian: %s", f.binary(), packages[f])
	}
}

// Start is Flavour.Start for those who do not care which.
func Start(t testing.TB, extra ...string) *Server { t.Helper(); return Redis.Start(t, extra...) }
