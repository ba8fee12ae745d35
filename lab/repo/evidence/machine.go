// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"strings"
)

// loadAverage is that of the last minute: a figure that was taken beside other work says so.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

// ticks are processor time since the machine started. What a virtual machine was refused, because its host
// served others, is in no load average; a failover that otherwise loses nothing has lost most of its sessions by it.
type ticks struct{ all, stolen float64 }

// processors reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. The two
// columns after it are part of the first two.
func processors(stat string) (t ticks) {
	line, _, _ := strings.Cut(stat, "\n")
	columns := strings.Fields(line)
	if len(columns) < 9 || columns[0] != "cpu" {
		return ticks{}
	}
	for i, c := range columns[1:9] {
		n, err := strconv.ParseFloat(c, 64)
		if err != nil {
			return ticks{}
		}
		t.all += n
		if i == 7 {
			t.stolen = n
		}
	}
	return t
}

// now is empty on systems without /proc.
func now() ticks {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}
	}
	return processors(string(stat))
}

// stolen is how much of the time between two moments others had, in percent; "" if nothing is known.
func stolen(before, after ticks) string {
	if before.all == 0 || after.all <= before.all {
		return ""
	}
	return strconv.FormatFloat(100*(after.stolen-before.stolen)/(after.all-before.all), 'f', 1, 64)
}
