// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/child"
)

// zookeepers is the size of the ensemble: one server would not show what agreeing
// costs.
const zookeepers = 3

// ZooKeeper is a running ensemble with ZooKeeper's default settings.
type ZooKeeper struct {
	*servers.Ensemble
	uncounted
}

// StartZooKeeper starts an ensemble. The caller stops it.
func StartZooKeeper(context.Context) (Server, error) {
	if err := child.Unmoved("ZooKeeper"); err != nil {
		return nil, err
	}
	e, err := servers.PlainZooKeeper(zookeepers)
	if err != nil {
		return nil, err
	}
	return &ZooKeeper{Ensemble: e}, nil
}

// Received is how many requests the servers have received on the connections that
// they have now and that have a session.
func (z *ZooKeeper) Received() (n int) {
	for _, s := range z.Servers {
		n += s.Received()
	}
	return n
}

// Addr implements Server: all of them, separated by commas.
func (z *ZooKeeper) Addr() string { return strings.Join(z.Addrs(), ",") }

// Version implements Server.
func (z *ZooKeeper) Version(context.Context) (string, error) {
	line, _, _ := strings.Cut(z.Servers[0].Ask("srvr"), ",")
	version, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return fmt.Sprintf("ZooKeeper %s, %d servers", version, zookeepers), nil
}

// CPU implements Server. It is the sum of all servers.
func (z *ZooKeeper) CPU(context.Context) (sum float64, err error) {
	for _, s := range z.Servers {
		ran, err := processTime(s.PID())
		if err != nil {
			return 0, err
		}
		sum += ran
	}
	return sum, nil
}

// Memory implements Server: it is not measured.
func (z *ZooKeeper) Memory(context.Context) (float64, error) { return 0, nil }
