// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"time"

	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// quorumFive is five servers that know nothing of each other; three of them
// decide. A fault of servers is one of a minority.
var quorumFive = Deployment{Name: "quorum-5", Lock: "quorum", SurvivesDataLoss: true, Quiet: 1,
	Shape: fault.Shape{Servers: 5, Votes: true}, Can: ofRedis, start: startFive}

func startFive(_ time.Duration, w fault.Wants) (*Rig, error) {
	r := &Rig{}
	for range 5 {
		s, err := server.StartRedis(w)
		if err != nil {
			return r, err
		}
		r.Servers, r.Addrs = append(r.Servers, s), append(r.Addrs, s.Addr)
	}
	return r, nil
}
