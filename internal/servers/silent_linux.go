// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Mute listens at an address where connecting works and no byte is ever sent, as at
// a server that was stopped.
func Mute() (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	// The kernel connects; a listener that never accepts stays silent.
	return l.Addr().String(), func() { _ = l.Close() }, nil
}

// BlackHole listens at an address where connecting never ends, as at one whose packets
// are dropped: the queue of the listener is full.
func BlackHole() (addr string, stop func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	var waiting []net.Conn
	stop = func() {
		for _, c := range waiting {
			_ = c.Close()
		}
		_ = syscall.Close(fd)
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	if err != nil {
		return "", nil, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return "", nil, os.NewSyscallError("getsockname", err)
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	for range 10 {
		conn, full := net.DialTimeout("tcp", addr, 500*time.Millisecond)
		if full != nil {
			return addr, stop, nil
		}
		waiting = append(waiting, conn)
	}
	return "", nil, errors.New("servers: a listener with a queue of none took ten connections")
}
