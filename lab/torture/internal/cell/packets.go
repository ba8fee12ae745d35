// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"time"

	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/lossynet"
)

// packets is the state of the network that a step makes.
func packets(s fault.Step) lossynet.State {
	switch s.Verb {
	case fault.Lose:
		return lossynet.State{Lose: s.Share}
	case fault.Corrupt:
		return lossynet.State{Corrupt: s.Share}
	case fault.Double:
		return lossynet.State{Twice: s.Share, By: s.By}
	case fault.Reorder:
		return lossynet.State{Late: s.Share, By: s.By}
	case fault.DropUp:
		return lossynet.State{NoRequests: true}
	case fault.DropDown:
		return lossynet.State{NoReplies: true}
	case fault.Flap:
		return lossynet.State{Flap: true, By: s.By}
	}
	return lossynet.State{Slow: true, By: s.By}
}

// harmPackets makes the wires of clients bad for a while. If not a single packet was touched
// the fault did not happen.
func (r *run) harmPackets(s fault.Step, targets []*slot) error {
	for _, t := range targets {
		r.network.Set(t.i, packets(s))
	}
	time.Sleep(s.For)
	touched := 0
	for _, t := range targets {
		touched += r.network.Set(t.i, lossynet.State{})
	}
	if touched == 0 {
		return errors.New("no packet was sent in that time that it could have harmed")
	}
	return nil
}
