// SPDX-License-Identifier: Apache-2.0

// Package proxy is a network between one client and one server that can be made
// bad: delayed, cut, or cut in one direction.
//
//	client ──▶ proxy ──requests──▶ server
//	             ◀────replies─────
//
// A cut drops bytes and keeps connections open, as a black hole does: neither
// side is told. When the cut ends the connections that lost bytes are closed,
// because what follows on them would be garbage. Connections made during a cut
// are accepted and stay silent.
package proxy

import (
	"net"
	"sync"
	"time"
)

// Proxy listens on a loopback port and forwards to a server.
type Proxy struct {
	// Addr is where clients connect to.
	Addr string

	to string
	l  net.Listener

	mu    sync.Mutex
	state State
	links map[*link]bool
	done  bool
}

// State is how bad the network is. The zero value is a good one.
type State struct {
	// Delay is added in each direction.
	Delay time.Duration
	// DropRequests and DropReplies make the directions black holes.
	DropRequests, DropReplies bool
}

type link struct {
	client, server net.Conn
	spoiled        bool // bytes were dropped; guarded by Proxy.mu
}

// New returns a running proxy. Close ends it.
func New(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), to: to, l: l, links: map[*link]bool{}}
	go p.accept()
	return p, nil
}

// Set changes the network. Links that lost bytes are closed once nothing is
// dropped any more.
func (p *Proxy) Set(s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	if s.DropReplies || s.DropRequests {
		return
	}
	for l := range p.links {
		if l.spoiled {
			l.close()
		}
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	for l := range p.links {
		l.close()
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

func (p *Proxy) serve(c net.Conn) {
	s, err := net.DialTimeout("tcp", p.to, 5*time.Second)
	if err != nil {
		_ = c.Close()
		return
	}
	l := &link{client: c, server: s}
	p.mu.Lock()
	p.links[l] = true
	if p.done {
		l.close()
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, l.server, l.client, func(s State) bool { return s.DropRequests }) })
	both.Go(func() { p.pump(l, l.client, l.server, func(s State) bool { return s.DropReplies }) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// piece is some bytes and when they may go on.
type piece struct {
	bytes []byte
	due   time.Time
}

// pump copies one direction. Reading and writing are apart, so that a delay does
// not make the connection slower than it makes it late.
func (p *Proxy) pump(l *link, to, from net.Conn, drops func(State) bool) {
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if n > 0 {
				p.mu.Lock()
				s := p.state
				if drops(s) {
					l.spoiled = true
				}
				spoiled := l.spoiled && drops(s)
				p.mu.Unlock()
				if !spoiled {
					pieces <- piece{buf[:n], time.Now().Add(s.Delay)}
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for x := range pieces {
		if d := time.Until(x.due); d > 0 {
			time.Sleep(d)
		}
		if _, err := to.Write(x.bytes); err != nil {
			break
		}
	}
	l.close()
	for range pieces { // so that the reader is not stuck
	}
}
