// SPDX-License-Identifier: Apache-2.0

package redisquorum

import (
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/quorum"
)

// finding is an alarm as a finding: a server that is back, or counts again, is a note.
func finding(a quorum.Alarm) driver.Finding {
	f := driver.Finding{Severity: driver.Warning, Code: strings.ReplaceAll(string(a.Kind), " ", "-"), Node: a.Node, Reason: string(a.Kind)}
	if a.Kind == quorum.NodeBack || a.Kind == quorum.NodeCounted {
		f.Severity = driver.Note
	}
	if a.Err != nil {
		f.Reason += ": " + a.Err.Error()
	}
	return f
}
