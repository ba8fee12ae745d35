// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// TestReplaced: another server has to lead after a fault that is to make one lead, and
// after no other.
func TestReplaced(t *testing.T) {
	none := errors.New("no server leads")
	for _, tt := range []struct {
		name   string
		step   fault.Step
		leader int
		err    error
		ok     bool
	}{
		{"killed, and another leads", fault.Step{Verb: fault.Kill, Target: "master", For: 4 * time.Second}, 1, nil, true},
		{"killed, and none took over", fault.Step{Verb: fault.Kill, Target: "master", For: 4 * time.Second}, 0, nil, false},
		{"killed, and none leads", fault.Step{Verb: fault.Kill, Target: "master", For: 4 * time.Second}, 0, none, false},
		{"killed for a moment", fault.Step{Verb: fault.Kill, Target: "master", For: time.Second}, 0, nil, true},
		{"any server", fault.Step{Verb: fault.Kill, Target: "server:0", For: 4 * time.Second}, 0, nil, true},
		{"cut off, and still it leads", fault.Step{Verb: fault.Isolate, Target: "master", For: 4 * time.Second}, 0, nil, false},
		{"cut off, and another leads", fault.Step{Verb: fault.Isolate, Target: "master", For: 4 * time.Second}, 1, nil, true},
		{"cut off in one direction", fault.Step{Verb: fault.Mute, Target: "master", For: 4 * time.Second}, 0, nil, true},
		{"asked to, and another leads", fault.Step{Verb: fault.Failover, Target: "master"}, 2, nil, true},
	} {
		r := &run{c: Cell{TTL: time.Second}, rig: &deployment.Rig{Master: func() (int, error) { return tt.leader, tt.err }}}
		if err := r.replaced(context.Background(), tt.step, 0); (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

// TestNothingHappened: a server that takes writes, and whose clock stands, is found out.
func TestNothingHappened(t *testing.T) {
	s, err := server.StartRedis(fault.Wants{Clock: true})
	if errors.Is(err, server.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	defer s.Stop()
	ctx := context.Background()
	if err := refused(ctx, s, 50*time.Millisecond); err == nil {
		t.Error("a server that takes writes is said to refuse them")
	}
	must.OK(t, s.Do(ctx, fault.Fill))
	if err := refused(ctx, s, 50*time.Millisecond); err != nil {
		t.Errorf("a server without memory: %v", err)
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		if err := moveClock(ctx, s, s.Clock(), by); err != nil {
			t.Errorf("by %v: %v", by, err)
		}
	}
	other, err := server.StartRedis(fault.Wants{})
	must.OK(t, err)
	defer other.Stop()
	if err := moveClock(ctx, other, s.Clock(), time.Hour); err == nil {
		t.Error("the clock of another server was moved, and this one is said to have moved")
	}
}
