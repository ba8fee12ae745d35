// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// TestMemoryOfSettings: what is missing in another incarnation may have been lost, and is kept in mind.
// What is missing in the same one was changed, and is not asked for.
func TestMemoryOfSettings(t *testing.T) {
	var m memory
	check := func(what string, inc int64, want rules) {
		t.Helper()
		if got := m.knows(inc); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	m.learn(1, rules{0, 10})
	check("at first", noInc, rules{0, 10})
	m.learn(1, rules{1, 20})
	check("switched on", noInc, rules{1, 20})
	check("of the same incarnation", 1, rules{})
	for range 2 {
		m.learn(2, rules{0, 5})
		check("lost", 2, rules{1, 20})
	}
	m.learn(2, rules{1, 5})
	m.learn(2, rules{0, 5})
	check("switched off", noInc, rules{0, 20})
	m.learn(2, rules{0, 30})
	m.learn(2, rules{0, 7})
	check("lowered", noInc, rules{0, 7})
}

// TestWhatAProcessDeclares: MaxTTL if it asks for grace or has set it, else the longest TTL of its sessions.
// With grace the default is the default TTL of a client.
func TestWhatAProcessDeclares(t *testing.T) {
	const s = int64(time.Second / time.Microsecond)
	for _, c := range []struct {
		opts     Options
		maxTTL   time.Duration
		declared int64
	}{
		{Options{}, time.Minute, -10 * s},
		{Options{MaxTTL: 20 * time.Second}, 20 * time.Second, -20 * s},
		{Options{Grace: true}, fencelock.DefaultTTL, 15 * s},
		{Options{Grace: true, MaxTTL: 20 * time.Second}, 20 * time.Second, 20 * s},
	} {
		o, err := c.opts.filled()
		if err != nil || o.MaxTTL != c.maxTTL {
			t.Errorf("%+v: MaxTTL %v, %v, want %v", c.opts, o.MaxTTL, err, c.maxTTL)
		}
		var m memory
		m.init(&o)
		for _, ttl := range []time.Duration{5 * time.Second, 10 * time.Second, time.Second} {
			m.declare(ttl)
		}
		if got := m.asks().declared(); got != c.declared {
			t.Errorf("%+v: declares %d, want %d", c.opts, got, c.declared)
		}
	}
}
