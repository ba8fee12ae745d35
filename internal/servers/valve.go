// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"context"
	"net"
	"sync"
)

// Valve dials connections, and holds back everything that they send while it is shut.
type Valve struct {
	mu   sync.Mutex
	open chan struct{} // nil: it is open
}

// Shut shuts the valve until heal is called.
func (v *Valve) Shut() (heal func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	open := make(chan struct{})
	v.open = open
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.open = nil
		close(open)
	}
}

func (v *Valve) wait() {
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	if open != nil {
		<-open
	}
}

// Dial connects to a server.
func (v *Valve) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	v.wait()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &valveConn{Conn: conn, v: v}, nil
}

type valveConn struct {
	net.Conn
	v *Valve
}

// Write implements net.Conn.
func (c *valveConn) Write(p []byte) (int, error) {
	c.v.wait()
	return c.Conn.Write(p)
}
