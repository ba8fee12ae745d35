// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"
	"time"
)

func TestCrowdCase(t *testing.T) {
	for _, tt := range []struct {
		crowd Crowd
		want  string
	}{
		{Crowd{Processes: 1, Goroutines: 16}, "16 goroutines, empty section"},
		{Crowd{Processes: 2}, "2 processes, empty section"},
		{Crowd{Processes: 4, Goroutines: 1}, "4 processes, empty section"},
		{Crowd{Processes: 4, Goroutines: 8}, "4 processes of 8 goroutines, empty section"},
		{Crowd{Processes: 4, Goroutines: 8, Section: time.Millisecond}, "4 processes of 8 goroutines, section of 1ms"},
	} {
		if got := tt.crowd.Case(); got != tt.want {
			t.Errorf("%+v is called %q, want %q", tt.crowd, got, tt.want)
		}
	}
}
