// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Peers is the network between the servers of a deployment: one proxy before each
// port on which a server listens to the others. All servers get the same
// addresses, so a proxy has to find out whose a connection is: it asks the
// kernel which process has the other end.
//
//	server 0 ─┐                        ┌─▶ server 1
//	server 2 ─┴─▶ proxy of server 1 ───┘
type Peers struct {
	mu      sync.Mutex // the first servers connect while proxies and processes of the next ones are added
	proxies [][]*Proxy // for each server
	pids    []func() int
	// Greeting is set if a server begins a connection with the address at which it
	// listens, as ZooKeeper does: the other server would call back there, past the
	// proxies, so the address is replaced by that of the proxy. Such a server gives up
	// on a leader that it could reach and that hangs up: see Proxy.late.
	Greeting bool
}

// greet replaces the address of a server by that of the proxy before it. Both are of
// one length, or nothing is done: the greeting says how long it is.
func (ps *Peers) greet(b []byte) []byte {
	for _, ports := range ps.fronts() {
		for _, p := range ports {
			if len(p.to) == len(p.Addr) {
				b = bytes.ReplaceAll(b, []byte(p.to), []byte(p.Addr))
			}
		}
	}
	return b
}

// fronts returns the proxies that there are now.
func (ps *Peers) fronts() [][]*Proxy {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.Clone(ps.proxies)
}

// Front adds a proxy before a port of server i and returns its address.
func (ps *Peers) Front(i int, addr string) (string, error) {
	p, err := listen(addr)
	if err != nil {
		return "", err
	}
	p.owner = ps.owner
	if ps.Greeting {
		p.greet, p.late = ps.greet, time.Second
	}
	ps.mu.Lock()
	for len(ps.proxies) <= i {
		ps.proxies = append(ps.proxies, nil)
	}
	ps.proxies[i] = append(ps.proxies[i], p)
	ps.mu.Unlock()
	go p.accept()
	return p.Addr, nil
}

// Process says how to find the process of server i: pid returns 0 while it does not run. Until it is called, the
// connections of that server are nobody's; they are asked for again when a server is cut off.
func (ps *Peers) Process(i int, pid func() int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for len(ps.pids) <= i {
		ps.pids = append(ps.pids, func() int { return 0 })
	}
	ps.pids[i] = pid
}

// processes returns the processes of the servers that there are now, 0 for those that do not run.
func (ps *Peers) processes() []int {
	ps.mu.Lock()
	found := slices.Clone(ps.pids)
	ps.mu.Unlock()
	pids := make([]int, len(found))
	for i, pid := range found {
		pids[i] = pid()
	}
	return pids
}

// Set makes the network between server i and all others bad. Of the state,
// DropRequests means what i sends, DropReplies what is sent to it.
func (ps *Peers) Set(i int, s State) {
	back := s
	back.DropRequests, back.DropReplies = s.DropReplies, s.DropRequests
	for to, ports := range ps.fronts() {
		for _, p := range ports {
			if to == i {
				p.Set(back)
			} else {
				p.SetFrom(i, s)
			}
		}
	}
}

// Close ends all proxies.
func (ps *Peers) Close() {
	for _, ports := range ps.fronts() {
		for _, p := range ports {
			p.Close()
		}
	}
}

// owner returns which server a connection to a proxy comes from, -1 if from none.
func (ps *Peers) owner(c net.Conn) int {
	port := c.RemoteAddr().(*net.TCPAddr).Port
	inode, err := inodeOf(port, c.LocalAddr().(*net.TCPAddr).Port)
	if err != nil {
		return -1
	}
	return slices.IndexFunc(ps.processes(), func(pid int) bool { return pid != 0 && has(pid, inode) })
}

// has reports whether a process has a socket.
func has(pid int, inode string) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
