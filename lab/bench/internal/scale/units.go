// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// UnitsTable is the unit costs as Markdown, one row for each server.
func UnitsTable(units []*suite.Units) string {
	var b strings.Builder
	b.WriteString("| Server | Lock and unlock, busy | the same, idle | Reader | Handoff | Keep-alive | Reclaim, derived | Waiting claim, per second | Idle process, per second | Connections |\n" +
		"| --- |" + strings.Repeat(" ---: |", 9) + "\n")
	for _, u := range units {
		fmt.Fprintf(&b, "| %s, %s | %s | %s | %s | %s | %s | %s | %s | %s | %.1f |\n", u.Server, u.Version,
			micros(u.Pair), micros(u.Pair+u.Wake), micros(u.Reader), micros(u.Handoff), micros(u.KeepAlive), micros(u.Reclaim), micros(u.Waiting), micros(u.Connected), u.Connections)
	}
	b.WriteString("\n| Server | Lease | Session | Waiting claim | Process | Traffic of lock and unlock | of a handoff | of a keep-alive | of an idle process, per second |\n" +
		"| --- |" + strings.Repeat(" ---: |", 8) + "\n")
	for _, u := range units {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", u.Server,
			bytes(u.Lease), bytes(u.Session), bytes(u.Claim), bytes(u.Process), bytes(u.Traffic.Pair), bytes(u.Traffic.Handoff), bytes(u.Traffic.KeepAlive), bytes(u.Traffic.Connected))
	}
	return b.String()
}

// bytes is a size, a dash if it was not measured.
func bytes(v float64) string {
	switch {
	case v <= 0:
		return "–"
	case v < 10_000:
		return fmt.Sprintf("%.0f B", v)
	}
	return fmt.Sprintf("%.0f KB", v/1000)
}
