// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestPeers: this process is server 0, and talks to server 1. Cut off from it, in
// one direction or both, it is; another one, which does not exist, is not.
func TestPeers(t *testing.T) {
	addr, lines := echo(t)
	ps := &Peers{}
	ps.Process(0, os.Getpid)
	defer ps.Close()
	if _, err := ps.Front(0, addr); err != nil {
		t.Fatal(err)
	}
	front, err := ps.Front(1, addr)
	must.OK(t, err)
	ask := func(patience time.Duration) error {
		c, err := net.Dial("tcp", front)
		must.OK(t, err)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, "x\n"); err != nil {
			return err
		}
		_, err = io.ReadFull(c, make([]byte, 2))
		return err
	}
	for _, tt := range []struct {
		name          string
		server        int
		s             State
		answer, heard bool
	}{
		{"a good network", 0, State{}, true, true},
		{"cut off", 0, State{DropRequests: true, DropReplies: true}, false, false},
		{"mute", 0, State{DropRequests: true}, false, false},
		{"deaf", 0, State{DropReplies: true}, false, true},
		{"the other one is mute", 1, State{DropRequests: true}, false, true},
		{"the other one is deaf", 1, State{DropReplies: true}, false, false},
	} {
		ps.Set(tt.server, tt.s)
		before := lines.Load()
		patience := 10 * time.Second
		if !tt.answer {
			patience = 200 * time.Millisecond
		}
		if err := ask(patience); (err == nil) != tt.answer || (lines.Load() > before) != tt.heard {
			t.Errorf("%s: answered %v (want %v), heard %v (want %v)", tt.name, err == nil, tt.answer, lines.Load() > before, tt.heard)
		}
		ps.Set(tt.server, State{})
	}
	ps.Process(0, func() int { return 0 })
	ps.Set(0, State{DropRequests: true, DropReplies: true})
	if err := ask(10 * time.Second); err != nil {
		t.Errorf("a process that is no server is cut off: %v", err)
	}
}

// TestPeersLate: a connection that was made before its process was known is cut off too.
func TestPeersLate(t *testing.T) {
	addr, lines := echo(t)
	var pid atomic.Int64
	ps := &Peers{}
	ps.Process(0, func() int { return int(pid.Load()) })
	defer ps.Close()
	if _, err := ps.Front(0, addr); err != nil {
		t.Fatal(err)
	}
	front, err := ps.Front(1, addr)
	must.OK(t, err)
	c, err := net.Dial("tcp", front)
	must.OK(t, err)
	defer c.Close()
	ping := func() error {
		if _, err := io.WriteString(c, "x\n"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 2))
		return err
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	must.OK(t, ping())
	pid.Store(int64(os.Getpid()))
	ps.Set(0, State{DropRequests: true, DropReplies: true})
	before := lines.Load()
	_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if err := ping(); err == nil || lines.Load() > before {
		t.Errorf("got %v and %d lines more, want silence", err, lines.Load()-before)
	}
}

// TestPeersLearnAProcessWhileServersConnect: the first servers connect before all are started. The race detector watches.
func TestPeersLearnAProcessWhileServersConnect(t *testing.T) {
	addr, _ := echo(t)
	ps := &Peers{}
	defer ps.Close()
	front, err := ps.Front(0, addr)
	must.OK(t, err)
	c, err := net.Dial("tcp", front)
	must.OK(t, err)
	defer c.Close()
	ps.Process(0, os.Getpid)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = io.WriteString(c, "x\n")
	must.OK(t, err)
	_, err = io.ReadFull(c, make([]byte, 2))
	must.OK(t, err)
}

// TestGreeting: the address of a server that it reports itself is that of its proxy then,
// in the first bytes only.
func TestGreeting(t *testing.T) {
	addr, _ := echo(t)
	ps := &Peers{Greeting: true}
	defer ps.Close()
	front, err := ps.Front(0, addr)
	must.OK(t, err)
	if len(front) != len(addr) {
		t.Skipf("%s and %s are not of one length, which no rewriting in place can do; run it again for other ports", addr, front)
	}
	c, err := net.Dial("tcp", front)
	must.OK(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	for _, want := range []string{front, addr} {
		got := make([]byte, len(addr)+1)
		if _, err := io.WriteString(c, addr+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want+"\n" {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

// TestAgain: a request comes twice, and its answer once.
func TestAgain(t *testing.T) {
	addr, lines := echo(t)
	p, err := NewProxy(addr)
	must.OK(t, err)
	defer p.Close()
	p.Set(State{Again: time.Millisecond})
	c, err := net.Dial("tcp", p.Addr)
	must.OK(t, err)
	defer c.Close()
	if _, err := io.WriteString(c, "x\n"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); lines.Load() < 2; {
		if time.Now().After(end) {
			t.Fatalf("the request came %d times", lines.Load())
		}
		<-time.After(time.Millisecond)
	}
	answer := make([]byte, 2)
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, answer); string(answer) != "x\n" || err != nil {
		t.Fatalf("got %q, %v, want an answer", answer, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if more, _ := io.ReadAll(c); len(more) > 0 {
		t.Errorf("got %q after the answer, want one answer", more)
	}
}

// TestOwnerIsFoundAmongManyConnections: a server that lost its links dials faster than a table of all connections can be read.
// So to find one of 2,000 takes no longer than one of few; also one of version 6, which Java makes.
func TestOwnerIsFoundAmongManyConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	own := func(c net.Conn) {
		t.Helper()
		inode, err := inodeOf(c.LocalAddr().(*net.TCPAddr).Port, port)
		if err != nil || !has(os.Getpid(), inode) {
			t.Errorf("%v: inode %q, %v", c.LocalAddr(), inode, err)
		}
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := dial()
	own(c)
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM, 0)
	must.OK(t, err)
	mapped := os.NewFile(uintptr(fd), "mapped")
	must.OK(t, syscall.Connect(fd, &syscall.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}))
	six, err := net.FileConn(mapped)
	must.OK(t, err)
	defer six.Close()
	must.OK(t, mapped.Close())
	own(six)
	each := func() time.Duration {
		began := time.Now()
		for range 200 {
			if _, err := inodeOf(c.LocalAddr().(*net.TCPAddr).Port, port); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	}
	few := min(each(), each(), each())
	for range 2000 {
		dial()
	}
	if many := min(each(), each(), each()); many > 3*few+20*time.Millisecond {
		t.Errorf("200 searches take %v, and %v beside 2,000 connections", few, many)
	}
	must.OK(t, c.Close())
	if inode, err := inodeOf(c.LocalAddr().(*net.TCPAddr).Port, port); err == nil {
		t.Errorf("a closed connection has the inode %s", inode)
	}
}
