// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"net"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestFreePort: a port is free, is no port of the kernel's, and is not given again for
// long; and they do not run out.
func TestFreePort(t *testing.T) {
	seen, after := map[int]int{}, lastPort-firstPort+2
	for i := range after {
		port, err := FreePort()
		must.OK(t, err)
		if last, ok := seen[port]; ok && i-last <= remembered || port < firstPort || port > lastPort {
			t.Fatalf("got %d, which was given before or is out of range", port)
		}
		seen[port] = i
	}
	port, err := FreePort()
	must.OK(t, err)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	_ = l.Close()
}
