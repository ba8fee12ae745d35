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
)

// Machine is where and with what something was measured.
type Machine struct {
	Date      string
	Processor string
	Cores     int
	MemoryGiB int
	System    string
	Go        string
	Modules   []Module
}

// Module is one that was linked in.
type Module struct{ Path, Version string }

// ThisMachine looks at the machine as far as it tells.
func ThisMachine() Machine {
	m := Machine{
		Date: time.Now().UTC().Format(time.DateOnly), Processor: runtime.GOARCH, Cores: runtime.NumCPU(),
		System: runtime.GOOS, Go: runtime.Version(),
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
	return fmt.Sprintf("%s, %d cores, %d GiB, %s, %s, %s", m.Processor, m.Cores, m.MemoryGiB, m.System, m.Go, m.Date)
}
