// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"time"

	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/wire"
)

// packets is the state of a wire that a step makes.
func packets(s fault.Step) wire.State {
	switch s.Verb {
	case fault.Lose:
		return wire.State{Lose: s.Share}
	case fault.Corrupt:
		return wire.State{Corrupt: s.Share}
	case fault.Double:
		return wire.State{Twice: s.Share, By: s.By}
	case fault.Reorder:
		return wire.State{Late: s.Share, By: s.By}
	case fault.DropUp:
		return wire.State{NoRequests: true}
	case fault.DropDown:
		return wire.State{NoReplies: true}
	case fault.Flap:
		return wire.State{Flap: true, By: s.By}
	}
	return wire.State{Slow: true, By: s.By}
}

// harmPackets makes the wires of clients bad for a while. If not a single packet was touched
// the fault did not happen.
func (r *run) harmPackets(s fault.Step, targets []*slot) error {
	for _, t := range targets {
		r.wire.Set(t.i, packets(s))
	}
	time.Sleep(s.For)
	touched := 0
	for _, t := range targets {
		touched += r.wire.Set(t.i, wire.State{})
	}
	if touched == 0 {
		return errors.New("no packet was sent in that time that it could have harmed")
	}
	return nil
}
