// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// echo answers each line with itself, and counts them.
func echo(t *testing.T) (string, *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var lines atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				r := bufio.NewReader(c)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						_ = c.Close()
						return
					}
					lines.Add(1)
					_, _ = io.WriteString(c, line)
				}
			}()
		}
	}()
	return l.Addr().String(), &lines
}

func TestProxy(t *testing.T) {
	addr, lines := echo(t)
	p, err := NewProxy(addr)
	must.OK(t, err)
	defer p.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr)
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn, patience time.Duration) (time.Duration, error) {
		began := time.Now()
		_ = c.SetDeadline(began.Add(patience))
		if _, err := io.WriteString(c, "x\n"); err != nil {
			return 0, err
		}
		_, err := io.ReadFull(c, make([]byte, 2))
		return time.Since(began), err
	}
	c := dial()
	if _, err := ask(c, 10*time.Second); err != nil {
		t.Fatalf("a good network: %v", err)
	}
	p.Set(State{Delay: 30 * time.Millisecond})
	if took, err := ask(c, 10*time.Second); err != nil || took < 60*time.Millisecond {
		t.Errorf("30 ms each way: got an answer after %v, %v", took, err)
	}
	p.Set(State{DropReplies: true})
	before := lines.Load()
	if _, err := ask(c, 200*time.Millisecond); err == nil {
		t.Error("replies are lost, but one came")
	}
	if err := Await("replies are lost, and not the request", func() bool { return lines.Load() == before+1 }); err != nil {
		t.Error(err)
	}
	p.Set(State{})
	if _, err := ask(c, 10*time.Second); err == nil {
		t.Error("the connection lost a reply and goes on as if it had not")
	}
	c = dial()
	p.Set(State{DropRequests: true})
	before = lines.Load()
	if _, err := ask(c, 200*time.Millisecond); err == nil || lines.Load() != before {
		t.Errorf("requests are lost, but %d arrived (%v)", lines.Load()-before, err)
	}
}

// TestStallAndFilter: a stalled proxy delays and loses nothing; a filter sees data with
// their direction, and what it refuses ends the connection.
func TestStallAndFilter(t *testing.T) {
	addr, lines := echo(t)
	p, err := NewProxy(addr)
	must.OK(t, err)
	defer p.Close()
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", p.Addr)
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		return c, bufio.NewReader(c)
	}
	c, r := dial()
	heal := p.Stall()
	_, _ = io.WriteString(c, "held\n")
	<-time.After(50 * time.Millisecond)
	if n := lines.Load(); n != 0 {
		t.Errorf("%d lines came through a stalled proxy", n)
	}
	heal()
	if line, err := r.ReadString('\n'); line != "held\n" || err != nil {
		t.Errorf("got %q, %v after the stall", line, err)
	}
	var replies atomic.Int64
	p.Filter(func(conn int, toServer bool, data []byte) bool {
		if !toServer {
			replies.Add(1)
		}
		return toServer || conn != 1
	})
	_, _ = io.WriteString(c, "asked\n")
	if line, err := r.ReadString('\n'); err == nil || lines.Load() != 2 || replies.Load() != 1 {
		t.Errorf("got %q, %v with the reply refused; %d lines, %d replies", line, err, lines.Load(), replies.Load())
	}
	other, r := dial()
	_, _ = io.WriteString(other, "fine\n")
	if line, err := r.ReadString('\n'); line != "fine\n" || err != nil {
		t.Errorf("got %q, %v on another connection", line, err)
	}
}

// TestProxyAcceptsAgain: a process that has too many files open for a moment cannot accept; later it can.
func TestProxyAcceptsAgain(t *testing.T) {
	to, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer to.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	p := NewProxyAt(&exhausted{Listener: l, left: 3}, to.Addr().String())
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr)
	must.OK(t, err)
	defer c.Close()
	must.OK(t, to.(*net.TCPListener).SetDeadline(time.Now().Add(10*time.Second)))
	s, err := to.Accept()
	if err != nil {
		t.Fatalf("the proxy accepts no connection any more: %v", err)
	}
	must.OK(t, s.Close())
}

// exhausted is a listener of a process that has too many files open for so many calls.
type exhausted struct {
	net.Listener
	left int
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.left--; l.left >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}
