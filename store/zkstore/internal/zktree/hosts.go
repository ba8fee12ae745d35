// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"

	"github.com/go-zookeeper/zk"
)

// hosts takes the client library through the servers in turn, by the names that the caller
// wrote. The library's own provider resolves the names once, so that a dialer would see only
// addresses: TLS could not check a certificate for a name, and a server that gets another
// address would stay unreachable.
type hosts struct {
	mu      sync.Mutex
	servers []string
	curr    int // the server of the last connection attempt, -1 before the first
	last    int // the server that was connected last; at first the one that was tried first
}

var _ zk.HostProvider = (*hosts)(nil)

// Init implements zk.HostProvider. The library has shuffled the servers.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers, h.curr, h.last = servers, -1, -1
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next implements zk.HostProvider. It reports whether every server was tried since the last
// connection: the library then pauses.
func (h *hosts) Next() (server string, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.curr = (h.curr + 1) % len(h.servers)
	all = h.curr == h.last
	h.last = max(h.last, 0)
	return h.servers[h.curr], all
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = h.curr
}

// dialTCP connects to one of the addresses of a host, in random order: one name may stand for
// all servers of an ensemble, and the first of them may accept connections and not serve.
func dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	var failed []error
	for _, addr := range addrs {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(addr, port))
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}
