// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a network between clients and one server that can be made bad: delayed,
// stalled, cut, or cut in one direction. It listens on a loopback port.
//
//	client ──▶ proxy ──requests──▶ server
//	             ◀────replies─────
//
// A State that drops bytes keeps connections open, as a black hole does: neither side is
// notified. When that ends the connections that lost bytes are closed, because what
// follows on them would be garbage. Connections made in the meantime are accepted and
// stay silent.
type Proxy struct {
	// Addr is where clients connect to, Port its port alone.
	Addr string
	Port int

	to string
	l  net.Listener

	// owner returns which server a connection is from, if that matters; see Peers.
	owner func(net.Conn) int
	// greet changes the first bytes of a connection, if it is set; see Peers.
	greet func([]byte) []byte
	// late is for how long a server that does not listen yet is tried again. A client
	// that dials it would be refused and try again; we have taken the connection, and to
	// close it means something else.
	late time.Duration
	// gate is locked while the proxy is stalled.
	gate sync.RWMutex

	mu     sync.Mutex
	state  State
	from   map[int]State // for connections of these owners instead
	links  map[*link]bool
	filter func(conn int, toServer bool, data []byte) bool
	count  int
	done   bool
	over   chan struct{} // closed when done
}

// State is how bad the network is. The zero value is a good one.
type State struct {
	// Delay is added in each direction.
	Delay time.Duration
	// DropRequests and DropReplies make the directions black holes.
	DropRequests, DropReplies bool
	// Again sends each request a second time, so much later, on a separate connection
	// whose replies are discarded: as if a library had tried again and the first try
	// was under way for long.
	Again time.Duration
}

type link struct {
	client, server net.Conn
	number         int
	from           int  // its owner, if the proxy has a question for that
	spoiled        bool // bytes were dropped; guarded by Proxy.mu
}

// NewProxy starts a proxy in front of an address. Close ends it.
func NewProxy(to string) (*Proxy, error) {
	p, err := listen(to)
	if err == nil {
		go p.accept()
	}
	return p, err
}

// NewProxyAt is NewProxy with a listener, which the proxy closes.
func NewProxyAt(l net.Listener, to string) *Proxy {
	p := proxyAt(l, to)
	go p.accept()
	return p
}

// listen returns a proxy that does not accept yet.
func listen(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return proxyAt(l, to), nil
}

func proxyAt(l net.Listener, to string) *Proxy {
	return &Proxy{Addr: l.Addr().String(), Port: l.Addr().(*net.TCPAddr).Port, to: to, l: l, links: map[*link]bool{}, from: map[int]State{}, over: make(chan struct{})}
}

// Set changes the network, except for owners that have their own state. Links
// that lost bytes are closed once nothing is dropped any more.
func (p *Proxy) Set(s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	p.sweep()
}

// SetFrom changes the network for the connections of one owner only; the zero
// State ends that.
func (p *Proxy) SetFrom(owner int, s State) {
	p.ask()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from[owner] = s
	if s == (State{}) {
		delete(p.from, owner)
	}
	p.sweep()
}

// ask finds the owners of the links of which none could be found when they were
// made: a server that starts dials the others before its process is known.
func (p *Proxy) ask() {
	if p.owner == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.from < 0 {
			l.from = p.owner(l.client)
		}
	}
}

// Stall lets nothing through, in either direction, and loses nothing, until heal is
// called.
func (p *Proxy) Stall() (heal func()) {
	p.gate.Lock()
	return p.gate.Unlock
}

// Filter is called with all data, by number of the connection; if it returns false the
// data are dropped and the connection is closed. nil removes it.
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

// Cut closes all connections, as a firewall or a restarted load balancer does. New ones
// are fine.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Retarget sends new connections to another server and closes the present ones, as
// an address does that moves to another machine.
func (p *Proxy) Retarget(to string) {
	p.RetargetNew(to)
	p.Cut()
}

// RetargetNew sends new connections to another server and leaves the present ones open, as a name does that
// is resolved to another machine.
func (p *Proxy) RetargetNew(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// sweep closes the links that lost bytes and lose none now; the caller has the
// mutex.
func (p *Proxy) sweep() {
	for l := range p.links {
		if s := p.of(l); l.spoiled && !s.DropReplies && !s.DropRequests {
			l.close()
		}
	}
}

// of is the state for a link; the caller has the mutex.
func (p *Proxy) of(l *link) State {
	if s, ok := p.from[l.from]; ok {
		return s
	}
	return p.state
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.done = true
		close(p.over)
	}
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
		switch {
		case err == nil:
			go p.serve(c)
		case errors.Is(err, net.ErrClosed):
			return
		default: // too many open files, say; later there are fewer
			p.rest(10 * time.Millisecond)
		}
	}
}

func (p *Proxy) serve(c net.Conn) {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	s, err := net.DialTimeout("tcp", to, 5*time.Second)
	for end := time.Now().Add(p.late); err != nil && time.Now().Before(end); p.rest(10 * time.Millisecond) {
		s, err = net.DialTimeout("tcp", to, time.Second)
	}
	if err != nil {
		_ = c.Close()
		return
	}
	l := &link{client: c, server: s, from: -1}
	if p.owner != nil {
		l.from = p.owner(c)
	}
	p.mu.Lock()
	p.links[l] = true
	p.count++
	l.number = p.count
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

// again sends a request on a separate connection. What is read at once is one request,
// or several whole requests, because clients write them so.
func (p *Proxy) again(request []byte, after time.Duration) {
	p.rest(after)
	p.mu.Lock()
	to, done := p.to, p.done
	p.mu.Unlock()
	c, err := net.DialTimeout("tcp", to, time.Second)
	if err != nil || done {
		return
	}
	defer c.Close()
	if _, err := c.Write(request); err == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = c.Read(make([]byte, 16<<10)) // it was executed, or never will be
	}
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
		for first := p.greet != nil && from == l.client; ; first = false {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if first {
				copy(buf, p.greet(buf[:n]))
			}
			if n > 0 {
				p.mu.Lock()
				s := p.of(l)
				if drops(s) {
					l.spoiled = true
				}
				spoiled := l.spoiled && drops(s)
				p.mu.Unlock()
				if s.Again > 0 && from == l.client {
					go p.again(buf[:n], s.Again)
				}
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
			p.rest(d)
		}
		if !p.pass(l, to, x.bytes) {
			break
		}
	}
	l.close()
	for range pieces { // so that the reader is not stuck
	}
}

// rest waits, but not longer than the proxy lasts.
func (p *Proxy) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.over:
	}
}

// pass writes to one side of a link, and reports whether the link is still good.
func (p *Proxy) pass(l *link, to net.Conn, data []byte) bool {
	p.gate.RLock()
	defer p.gate.RUnlock()
	p.mu.Lock()
	filter := p.filter
	p.mu.Unlock()
	if filter != nil && !filter(l.number, to == l.server, data) {
		return false
	}
	_, err := to.Write(data)
	return err == nil
}

// LostReply is a filter of a Proxy that loses one reply: the first one, after Start, on the connection of
// a request that has the mark in it.
type LostReply struct {
	mark  []byte
	on    atomic.Bool
	asked atomic.Int64 // the connection, + 1
	over  atomic.Bool
}

// LoseReplyTo sets the filter of the proxy.
func (p *Proxy) LoseReplyTo(mark string) *LostReply {
	l := &LostReply{mark: []byte(mark)}
	p.Filter(l.filter)
	return l
}

// Start begins to look for the request.
func (l *LostReply) Start() { l.on.Store(true) }

// Done reports whether the reply was lost.
func (l *LostReply) Done() bool { return l.over.Load() }

func (l *LostReply) filter(conn int, toServer bool, data []byte) bool {
	if toServer && l.on.Load() && bytes.Contains(data, l.mark) {
		l.asked.CompareAndSwap(0, int64(conn)+1)
		return true
	}
	return toServer || l.asked.Load() != int64(conn)+1 || !l.over.CompareAndSwap(false, true)
}

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
