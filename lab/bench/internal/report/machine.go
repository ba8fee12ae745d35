// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/internal/checkout"
)

// Machine is where and with what something was measured.
type Machine struct {
	Date      string
	Processor string
	Cores     int
	MemoryGiB int
	// Load is how many processes wanted a processor when the run began: whatever
	// else the machine was doing.
	Load   string
	System string
	Go     string
	// Commit is that of fencelock, and whether files had been changed since; empty
	// if git does not know it.
	Commit  string   `json:",omitempty"`
	Modules []Module `json:",omitempty"`
}

// Module is one that was linked in.
type Module struct{ Path, Version string }

// ThisMachine reads what the system reports about the machine.
func ThisMachine() Machine {
	m := Machine{
		Date: time.Now().UTC().Format(time.DateOnly), Processor: runtime.GOARCH, Cores: runtime.NumCPU(),
		System: runtime.GOOS, Go: runtime.Version(), Commit: checkout.Commit("."),
	}
	if v := field("/proc/cpuinfo", "model name"); v != "" {
		m.Processor = v
	}
	if kb, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal"), " "); kb != "" {
		n, _ := strconv.Atoi(kb)
		m.MemoryGiB = (n + 1<<19) >> 20
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Version != "(devel)" {
				m.Modules = append(m.Modules, Module{d.Path, d.Version})
			}
		}
	}
	return m
}

// field returns the value after "name :" in a file of the kernel.
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// String is one line for people.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %d GiB, %s, %s, %s; load average %s before the run",
		m.Processor, m.Cores, m.MemoryGiB, m.System, m.Go, m.Date, m.Load)
}
