// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"net"
	"testing"
)

// TestFreePort: a port is free, is no port of the kernel's, and is given once.
func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port > lastPort {
			t.Fatalf("got %d, which was given before or is out of range", port)
		}
		seen[port] = true
	}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	_ = l.Close()
}
