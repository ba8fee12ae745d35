// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// AwaitStopped waits until a process that was sent SIGSTOP has stopped. The signal
// stops its threads one after the other, and until then the last thread may still
// answer. Only Linux reports this; elsewhere AwaitStopped returns at once.
func AwaitStopped(pid int) {
	for deadline := time.Now().Add(patience); !stopped(pid) && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
}

// stopped reports whether no thread of a process runs: each is stopped, or dead. A child
// of a server that ended by itself stays a zombie while its parent is stopped.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		if _, state, ok := strings.Cut(string(text), ") "); ok && !strings.ContainsAny(state[:1], "TZX") {
			return false
		}
	}
	return true
}
