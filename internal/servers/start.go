// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"os/exec"
	"runtime"
	"sync"
)

// Start starts a command that ends with this process. It starts it on a thread that
// lives as long as we do: the kernel ends such a command with the thread that started
// it, and Go ends threads as it likes.
func Start(cmd *exec.Cmd) error {
	threadOnce.Do(func() {
		go func() {
			runtime.LockOSThread()
			for f := range thread {
				f()
			}
		}()
	})
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = Mortal()
	}
	result := make(chan error)
	thread <- func() { result <- cmd.Start() }
	return <-result
}

var (
	threadOnce sync.Once
	thread     = make(chan func())
)
