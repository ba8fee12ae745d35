// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// StartStepped is Start for a server whose wall clock can be stepped while it runs. It
// needs a C compiler.
func StartStepped(t testing.TB, extra ...string) *Server {
	t.Helper()
	Redis.Need(t)
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler to step a server's clock with; on Debian: apt-get install gcc libc6-dev")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := &Server{t: t, flavour: Redis, dir: t.TempDir(), args: extra, clock: filepath.Join(dir, "ahead")}
	s.env = []string{"LD_PRELOAD=" + library, "CLOCK_AHEAD_FILE=" + s.clock}
	s.Clock(0)
	return s.begin()
}

// Clock sets how far the clock of a server that was started stepped is ahead.
func (s *Server) Clock(ahead time.Duration) {
	s.t.Helper()
	// The server has the file mapped, so it is changed in place: eight bytes at once.
	f, err := os.OpenFile(s.clock, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0)
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
