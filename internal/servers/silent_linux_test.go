// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestSilence: at one address connecting works and reading does not end, at the other
// connecting does not end.
func TestSilence(t *testing.T) {
	addr, stop, err := Mute()
	must.OK(t, err)
	defer stop()
	conn, err := net.Dial("tcp", addr)
	must.OK(t, err)
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Errorf("read %d bytes, %v, where nothing is sent", n, err)
	}

	addr, stop, err = BlackHole()
	must.OK(t, err)
	defer stop()
	if conn, err := net.DialTimeout("tcp", addr, 300*time.Millisecond); !os.IsTimeout(err) {
		t.Errorf("got %v, %v, where connecting never ends", conn, err)
	}
}
