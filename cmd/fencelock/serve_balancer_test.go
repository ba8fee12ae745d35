// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"net"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// balancer is a plain TCP load balancer: each connection goes to the next server that accepts
// it. It knows nothing of HTTP.
type balancer struct {
	l net.Listener

	mu    sync.Mutex
	to    []string
	next  int
	off   map[string]bool // servers that are cut off
	links map[*balanced]struct{}
}

// balanced is a connection.
type balanced struct {
	client, server net.Conn
	from           string // address of the client
	to             string
	spoiled        bool // bytes were dropped; guarded by balancer.mu
}

// newBalancer listens until the test ends.
func newBalancer(t testing.TB, to ...string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	b := &balancer{l: l, to: to, off: map[string]bool{}, links: map[*balanced]struct{}{}}
	go b.accept()
	t.Cleanup(func() { _ = l.Close(); b.cut("") })
	return b
}

func (b *balancer) url() string { return "http://" + b.l.Addr().String() }

func (b *balancer) accept() {
	for {
		client, err := b.l.Accept()
		if err != nil {
			return
		}
		go b.carry(client)
	}
}

// carry copies bytes until one side ends.
func (b *balancer) carry(client net.Conn) {
	defer client.Close()
	link := b.dial(client)
	if link == nil {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{link.server, client}, {client, link.server}} {
		both.Go(func() {
			b.copy(link, way[0], way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
	b.mu.Lock()
	delete(b.links, link)
	b.mu.Unlock()
}

// copy copies one direction, and drops what is for a server that is cut off, or from it.
func (b *balancer) copy(link *balanced, to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		b.mu.Lock()
		link.spoiled = link.spoiled || b.off[link.to]
		lost := link.spoiled
		b.mu.Unlock()
		if !lost {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// dial connects to the next server that accepts.
func (b *balancer) dial(client net.Conn) *balanced {
	b.mu.Lock()
	to, first := b.to, b.next
	b.next++
	b.mu.Unlock()
	for i := range to {
		addr := to[(first+i)%len(to)]
		b.mu.Lock()
		off := b.off[addr]
		b.mu.Unlock()
		if off {
			continue
		}
		server, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		link := &balanced{client: client, server: server, from: client.RemoteAddr().String(), to: addr}
		b.mu.Lock()
		b.links[link] = struct{}{}
		b.mu.Unlock()
		return link
	}
	return nil
}

// serverOf returns where the connection of a client goes.
func (b *balancer) serverOf(client string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for link := range b.links {
		if link.from == client {
			return link.to
		}
	}
	return ""
}

// cut ends the connections to a server, or all.
func (b *balancer) cut(to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for link := range b.links {
		if to == "" || link.to == to {
			_ = link.client.Close()
			_ = link.server.Close()
		}
	}
}

// cutOff lets no client reach a server until heal is called: new connections lead to the others. Connections to it are closed
// or, silently, stay open and lose what is sent, as if the network were gone.
func (b *balancer) cutOff(to string, silently bool) (heal func()) {
	b.mu.Lock()
	b.off[to] = true
	b.mu.Unlock()
	if !silently {
		b.cut(to)
	}
	return func() {
		b.mu.Lock()
		delete(b.off, to)
		b.mu.Unlock()
		b.cut(to) // they have lost bytes
	}
}
