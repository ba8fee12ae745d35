// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports of servers. The kernel takes those for connections, and for programs that
// listen at port 0, from above them by default.
const firstPort, lastPort = 20000, 32767

// remembered is how many ports are given before one of them may be given again:
// about half of them, and so many that their servers are gone by then.
const remembered = 6000

var given = struct {
	sync.Mutex
	ports map[int]bool
	order [remembered]int // a ring
	next  int
}{ports: map[int]bool{}}

// FreePort returns a loopback port at which no program listens, and none of the last six
// thousand that it returned in this process. A server keeps its port while it is down.
// If another test were given the port in that time, the clients of one test would talk
// to the server of the other, and a connection from the port would keep the server from
// coming back. Another process can still take the port: then the server does not start,
// and says so. Older ports are given again, or a long run would use up all ports; no
// test has to give them back.
func FreePort() (int, error) {
	given.Lock()
	defer given.Unlock()
	last := errors.New("all that were tried had been given before")
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
		delete(given.ports, given.order[given.next])
		given.ports[port] = true
		given.order[given.next] = port
		given.next = (given.next + 1) % remembered
		return port, l.Close()
	}
	return 0, fmt.Errorf("no port between %d and %d is free: %w", firstPort, lastPort, last)
}
