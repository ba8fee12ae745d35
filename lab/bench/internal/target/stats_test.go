// SPDX-License-Identifier: Apache-2.0

package target

import (
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

const answer = "# Commandstats\r\n" +
	"cmdstat_evalsha:calls=2,usec=21,usec_per_call=10.50,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_get:calls=2,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_set:calls=5,usec=7,usec_per_call=1.40,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_ping:calls=4,usec=1,usec_per_call=0.25,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_config|resetstat:calls=1,usec=100,usec_per_call=100.00,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_info:calls=1,usec=50,usec_per_call=50.00,rejected_calls=0,failed_calls=0\r\n"

func TestStats(t *testing.T) {
	stats, err := ParseStats(answer)
	must.OK(t, err)
	if got, want := stats["get"], (Count{Calls: 2, Usec: 3}); got != want {
		t.Errorf("get: %v, want %v", got, want)
	}
	if got, want := stats.Sent(nil), (Count{Calls: 2, Usec: 21}); got != want {
		t.Errorf("scripts only: %v, want %v", got, want)
	}
	if got, want := stats.Sent([]string{"set"}), (Count{Calls: 7, Usec: 28}); got != want {
		t.Errorf("with SET: %v, want %v", got, want)
	}
	if got, want := stats.Pings(), 4; got != want {
		t.Errorf("Pings = %d, want %d", got, want)
	}
}

func TestStatsComplain(t *testing.T) {
	if stats, err := ParseStats("cmdstat_get:calls=two\r\n"); err == nil {
		t.Errorf("got %v and no error for a count that is no number", stats)
	}
	if stats, err := ParseStats(""); err != nil || len(stats) != 0 {
		t.Errorf("got %v, %v for an empty answer", stats, err)
	}
}
