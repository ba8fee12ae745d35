// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// start starts an ensemble and ends it with the test.
func start(t testing.TB, n int) *servers.Ensemble {
	t.Helper()
	return servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(n) })
}

// TestConformance checks the store clauses on one real server. Nearly all of its time is
// waiting, so many cases run at once, each below its own root. The server is never
// stopped: a case that needs a server which does not answer blocks its own connections.
//
// The harness has no Reset: an ensemble keeps its data, and a store without incarnations
// could not detect the loss.
func TestConformance(t *testing.T) { conform(t, start(t, 1), drivertest.Cases()) }

func conform(t *testing.T, e *servers.Ensemble, cases []drivertest.Case) {
	harness := func(t *testing.T) *drivertest.Harness { return harness(t, e) }
	drivertest.RunCases(t, cases, slices.Repeat([]func(*testing.T) *drivertest.Harness{harness}, 16)...)
}

// roots gives every case its own root.
var roots atomic.Int64

func harness(t *testing.T, e *servers.Ensemble) *drivertest.Harness {
	root := fmt.Sprintf("/case%d", roots.Add(1))
	valve := &valve{}
	return &drivertest.Harness{
		Open: func() (driver.Store, error) {
			s, err := zkstore.New(e.Addrs(), &zkstore.Options{Root: root, TickTime: servers.TickTime, MaxTTL: 50 * time.Second, Dial: valve.dial})
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return s, err
		},
		Sever: valve.shut,
		TTL:   3 * time.Second, // several servers and all these clients share few processors here
		Slack: 1200 * time.Millisecond,
		Soon:  10 * time.Second,
	}
}

// valve holds back everything that its connections send, while it is shut.
type valve struct {
	mu   sync.Mutex
	open chan struct{} // nil: it is open
}

func (v *valve) shut() (heal func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	open := make(chan struct{})
	v.open = open
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.open = nil
		close(open)
	}
}

func (v *valve) wait() {
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	if open != nil {
		<-open
	}
}

func (v *valve) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	v.wait()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &valveConn{Conn: conn, v: v}, nil
}

type valveConn struct {
	net.Conn
	v *valve
}

func (c *valveConn) Write(p []byte) (int, error) {
	c.v.wait()
	return c.Conn.Write(p)
}
