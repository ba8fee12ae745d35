// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"time"

	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// redisOne is one server without grace: a data loss may make a second
// holder, with a greater token.
var redisOne = Deployment{Name: "redis", Lock: "redis", Fair: true, Lingers: true, Shape: fault.Shape{Servers: 1}, Can: ofRedis, start: startOne}

// redisGrace is one server that grants nothing for a TTL after a loss.
var redisGrace = Deployment{Name: "redis-grace", Lock: "redis-grace", Fair: true, Lingers: true, SurvivesDataLoss: true, Quiet: 1,
	Shape: fault.Shape{Servers: 1}, Can: ofRedis, start: startOne}

func startOne(_ time.Duration, w fault.Wants) (*Rig, error) {
	s, err := server.StartRedis(w)
	if err != nil {
		return nil, err
	}
	return &Rig{Servers: []server.Server{s}, Addrs: []string{s.Addr}}, nil
}
