// SPDX-License-Identifier: Apache-2.0

package lossynet

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/fencelock/fencelock/internal/servers"
)

// namespace is a network namespace: a thread of this process that is in it. What the thread
// makes, sockets and processes, stays in it.
type namespace struct{ do chan func() }

// newNamespace makes a namespace. Its thread ends with it, because it is never unlocked.
func newNamespace() (*namespace, error) {
	ns := &namespace{do: make(chan func())}
	made := make(chan error)
	go ns.serve(made)
	return ns, <-made
}

// serve is the goroutine of the namespace. It never takes the main thread, which ends only with
// the process and whose network is what the process reads in /proc/net.
func (ns *namespace) serve(made chan<- error) {
	runtime.LockOSThread()
	if syscall.Gettid() == syscall.Getpid() {
		elsewhere := make(chan error)
		go ns.serve(elsewhere)
		made <- <-elsewhere
		runtime.UnlockOSThread()
		return
	}
	err := syscall.Unshare(syscall.CLONE_NEWNET)
	made <- err
	if err != nil {
		return
	}
	for f := range ns.do {
		f()
	}
}

// in calls a function on the thread of the namespace.
func (ns *namespace) in(f func() error) error {
	result := make(chan error)
	ns.do <- func() { result <- f() }
	return <-result
}

func (ns *namespace) close() { close(ns.do) }

func (ns *namespace) listen(addr string) (l net.Listener, err error) {
	err = ns.in(func() (err error) { l, err = net.Listen("tcp", addr); return err })
	return l, err
}

func (ns *namespace) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = servers.Mortal()
	return ns.in(cmd.Start)
}

func (ns *namespace) command(args []string) error {
	return ns.in(func() error {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
		return nil
	})
}

// device is a TUN device; each Read and Write is one packet.
type device struct{ *os.File }

// From linux/if_tun.h.
const (
	tunSetIff  = 0x400454ca
	iffTun     = 0x0001
	iffNoInfo  = 0x1000
	nameLength = 16
)

// device makes a TUN device, which ends when it is closed.
func (ns *namespace) device(name string) (d *device, err error) {
	err = ns.in(func() error {
		fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("/dev/net/tun: %w", err)
		}
		var request struct {
			name  [nameLength]byte
			flags uint16
			_     [22]byte
		}
		copy(request.name[:], name)
		request.flags = iffTun | iffNoInfo
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), tunSetIff, uintptr(unsafe.Pointer(&request))); errno != 0 {
			_ = syscall.Close(fd)
			return fmt.Errorf("a TUN device: %w", errno)
		}
		d = &device{os.NewFile(uintptr(fd), name)}
		return nil
	})
	return d, err
}
