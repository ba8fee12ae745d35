// SPDX-License-Identifier: Apache-2.0

package fleetsim

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// CostsOf reads the measured unit costs of a server from the file that bench writes. They are those of all its servers together.
func CostsOf(file []byte, server string) (Costs, error) {
	var all struct {
		Units []struct {
			Server                                  string
			Pair, Wake, Handoff, KeepAlive, Reclaim float64
			Connected, Connections, Base            float64
		}
	}
	if err := json.Unmarshal(file, &all); err != nil {
		return Costs{}, err
	}
	for _, u := range all.Units {
		if u.Server == server {
			return Costs{
				// A handoff is measured on a server that is idle, and Wake is that of two calls.
				Pair: usec(u.Pair), Handoff: usec(max(u.Pair, u.Handoff-u.Wake)), KeepAlive: usec(u.KeepAlive), Reclaim: usec(u.Reclaim),
				Wake: usec(u.Wake / 2), Connected: usec(u.Connected), Connections: int(math.Round(u.Connections)), Base: usec(u.Base),
			}, nil
		}
	}
	return Costs{}, fmt.Errorf("no unit costs of %s; measure them with go run ./lab/bench -units -only %s", server, server)
}

func usec(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }

// Over returns the costs of n servers that all do the same: of a call, those of one.
func (c Costs) Over(n int) Costs {
	d := time.Duration(n)
	return Costs{c.Pair / d, c.Handoff / d, c.KeepAlive / d, c.Reclaim / d, c.Wake / d, c.Connected / d, c.Connections / n, c.Base}
}
