// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports of servers. The kernel takes those for connections, and for whoever
// listens at port 0, from above them by default.
const firstPort, lastPort = 20000, 32767

var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// FreePort returns a loopback port at which nobody listens, and never the same one
// twice in a process. A server keeps its port while it is down. If a neighbour were
// given it meanwhile, the clients of the one would talk to the server of the other;
// and a connection from it would keep the server from coming back. Another process
// can still take it: then the server does not start, and says so.
func FreePort() (int, error) {
	given.Lock()
	defer given.Unlock()
	var last error
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if given.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		given.ports[port] = true
		return port, l.Close()
	}
	return 0, fmt.Errorf("no port between %d and %d is free: %w", firstPort, lastPort, last)
}
