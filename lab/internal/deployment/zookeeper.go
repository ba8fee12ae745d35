// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// zookeeper is an ensemble of three.
var zookeeper = Deployment{Name: "zookeeper", Lock: "zookeeper", TTL: 2 * time.Second, SurvivesDataLoss: true, Fair: true, Lingers: true, Quiet: 1, start: startZooKeeper,
	Shape: fault.Shape{Servers: 3, Replicated: true, Votes: true}, Can: append([]fault.Verb{fault.Wipe}, ofPeers...)}

func startZooKeeper(_ time.Duration, _ fault.Wants) (*Rig, error) {
	r := &Rig{Peers: &servers.Peers{Greeting: true}}
	r.stop = append(r.stop, r.Peers.Close)
	e, err := servers.ZooKeeperBehind(3, func(i, port int) (int, error) {
		addr, err := r.Peers.Front(i, fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return 0, err
		}
		_, text, _ := net.SplitHostPort(addr)
		return strconv.Atoi(text)
	})
	if err != nil {
		return r, err
	}
	r.stop = append(r.stop, e.Stop)
	for i, s := range e.Servers {
		r.Peers.Process(i, s.PID)
		r.Servers = append(r.Servers, server.NewZooKeeper(s))
	}
	r.Addrs = e.Addrs()
	r.Master = func() (int, error) {
		leader := e.Leader()
		for i, s := range e.Servers {
			if s == leader {
				return i, nil
			}
		}
		return 0, errors.New("no server leads")
	}
	return r, nil
}
