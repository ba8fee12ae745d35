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

// AwaitStopped waits until a process that was sent SIGSTOP stands still. The signal
// stops its threads one after the other, and the last may answer meanwhile. Only Linux
// tells; elsewhere it returns at once.
func AwaitStopped(pid int) {
	for deadline := time.Now().Add(patience); !stopped(pid) && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
}

// stopped says whether no thread of a process runs.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		if _, state, ok := strings.Cut(string(text), ") "); ok && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}
