// SPDX-License-Identifier: Apache-2.0

// Package child gives processors to the processes that a benchmark starts. That they
// do not outlive it is what servers.Start is for.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// pinned is set in the environment of a benchmark that has been pinned, and with
// it in that of its workers.
const pinned = "BENCH_PINNED"

// The server gets one processor and the clients another. Where the kernel may put
// them together or apart as it likes, a candidate that wakes more threads can look
// faster than one that does less.
const (
	serverCPU  = "0"
	clientsCPU = "1"
)

// Unmoved is the error of a server that is not moved to a separate processor, nil if this
// program is not pinned. A server that this program starts inherits the processor of the
// clients. A server that is not moved would share it with them, which -pin must prevent.
func Unmoved(server string) error {
	if !Pinned() {
		return nil
	}
	return fmt.Errorf("-pin: %s does not get a separate processor and would share that of the clients; run it without -pin", server)
}

// Pinned reports whether Pin was called.
func Pinned() bool { return os.Getenv(pinned) != "" }

// Pin starts this program again on the processor of the clients. It returns only if it
// cannot.
func Pin() error {
	if Pinned() {
		return errors.New("pinned already")
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return errors.New("taskset is not installed; on Debian: apt-get install util-linux")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"taskset", "-c", clientsCPU, self}, os.Args[1:]...)
	return syscall.Exec(taskset, args, append(os.Environ(), pinned+"=1"))
}

// Move gives a server that runs the server's processor if this program is pinned.
func Move(pid int) error {
	if !Pinned() {
		return nil
	}
	if out, err := exec.Command("taskset", "-a", "-c", "-p", serverCPU, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		return fmt.Errorf("taskset: %w: %s", err, out)
	}
	return nil
}
