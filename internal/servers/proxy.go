// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"bytes"
	"net"
	"sync"
)

// Proxy stands between a client and a server, and can be cut or stalled.
type Proxy struct {
	// Addr is host and port, Port the port alone.
	Addr string
	Port int

	listener net.Listener
	target   string
	gate     sync.RWMutex // locked: nothing goes through

	mu     sync.Mutex // guards what follows, and target
	conns  map[net.Conn]bool
	filter func(conn int, toServer bool, data []byte) bool
	count  int
}

// NewProxy starts a proxy in front of an address.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), Port: l.Addr().(*net.TCPAddr).Port, listener: l, target: target, conns: map[net.Conn]bool{}}
	go p.accept()
	return p, nil
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		out, err := net.Dial("tcp", target)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = true, true
		p.count++
		n := p.count
		p.mu.Unlock()
		go p.copy(out, in, n, true)
		go p.copy(in, out, n, false)
	}
}

func (p *Proxy) copy(to, from net.Conn, conn int, toServer bool) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.gate.RLock()
		p.mu.Lock()
		filter := p.filter
		p.mu.Unlock()
		pass := filter == nil || filter(conn, toServer, buf[:n])
		if pass {
			_, err = to.Write(buf[:n])
		}
		p.gate.RUnlock()
		if err != nil || !pass {
			return
		}
	}
}

// Stall lets nothing through, in either direction, until heal is called.
func (p *Proxy) Stall() (heal func()) {
	p.gate.Lock()
	return p.gate.Unlock
}

// Retarget sends new connections to another address and closes the present ones, as an
// address does that moves to another machine.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Cut closes all connections. New ones are fine.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Filter looks at whatever goes through, by number of the connection; if it answers false
// the data are dropped and the connection is closed. nil removes it.
func (p *Proxy) Filter(f func(conn int, toServer bool, data []byte) bool) {
	p.mu.Lock()
	p.filter = f
	p.mu.Unlock()
}

// cancelRequest begins a connection of PostgreSQL that only asks to cancel a statement of
// another one.
var cancelRequest = []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}

// DropCancels drops requests to cancel a statement. pgbouncer before 1.21, which Debian 12
// has, may end with "server in bad state" when it gets one
// (https://github.com/pgbouncer/pgbouncer/issues/822).
func (p *Proxy) DropCancels() {
	p.Filter(func(_ int, toServer bool, data []byte) bool {
		return !toServer || !bytes.HasPrefix(data, cancelRequest)
	})
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
}
