// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy is a connection to a server that can be cut without anybody being told:
// what is sent is swallowed, and connections stay open.
type proxy struct {
	addr   string
	listen net.Listener
	off    atomic.Bool
	once   sync.Once

	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), listen: l}
	t.Cleanup(p.close)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go p.pass(out, in)
			go p.pass(in, out)
		}
	}()
	return p
}

func (p *proxy) pass(dst, src net.Conn) {
	defer dst.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		if p.off.Load() {
			continue
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) cut() { p.off.Store(true) }

// heal lets everything through again. Connections that lost something are closed.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.off.Store(false)
}

func (p *proxy) close() {
	p.once.Do(func() {
		_ = p.listen.Close()
		p.heal()
	})
}
