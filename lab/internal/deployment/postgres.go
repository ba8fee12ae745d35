// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
	"github.com/fencelock/fencelock/store/sqlstore"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// postgres is one server. It keeps acknowledged writes through a crash. Emptying its tables
// stands for a data loss: with grace it then grants nothing for a TTL.
var postgres = Deployment{Name: "postgres", Lock: "postgres", SurvivesDataLoss: true, Fair: true, Lingers: true, Quiet: 1,
	Shape: fault.Shape{Servers: 1}, Can: ofPostgres, Lacks: lacksSQL,
	start: func(ttl time.Duration, w fault.Wants) (*Rig, error) {
		d, err := startPostgres(ttl, true, w)
		if err != nil {
			return nil, err
		}
		return &Rig{Servers: []server.Server{d}, Addrs: []string{d.Addr}}, nil
	}}

var ofPostgres = []fault.Verb{fault.Flush, fault.CutPush, fault.Clock, fault.ClockBack, fault.ClockRate}

// postgresPool is the same behind pgbouncer, which gives each statement to another
// connection.
var postgresPool = Deployment{Name: "pgbouncer", Lock: "pgbouncer", SurvivesDataLoss: true, Fair: true, Quiet: 1,
	Shape: fault.Shape{Servers: 1}, Pooled: true, Can: ofPostgres, Lacks: lacksSQL, start: startPool}

// postgresPair is a server with a replica that may lag, without grace.
var postgresPair = Deployment{Name: "postgres-pair", Lock: "postgres-pair", Fair: true, Lingers: true, Quiet: 1,
	Shape: fault.Shape{Servers: 1, Replicated: true}, Can: append([]fault.Verb{fault.Failover}, ofPostgres...), Lacks: lacksSQL, start: startPair,
	Keeps: []string{"server-kill", "leader-kill"}}

func startPostgres(ttl time.Duration, grace bool, w fault.Wants, settings ...string) (*database, error) {
	s, err := servers.Postgres(settings...)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.Addr)
	return newDatabase(s, "pgx", url, &sqlstore.Options{MaxTTL: ttl, Grace: grace}, w)
}

func startPool(ttl time.Duration, w fault.Wants) (*Rig, error) {
	d, err := startPostgres(ttl, true, w)
	if err != nil {
		return nil, err
	}
	r := &Rig{Servers: []server.Server{d}, Pooler: 1}
	b, err := d.Pgbouncer()
	if err != nil {
		return r, err
	}
	r.Servers, r.Addrs = append(r.Servers, server.Wrap(b)), []string{b.Addr}
	return r, nil
}

// pair is a primary and its replica, which takes over.
type pair struct {
	rig     *Rig
	ttl     time.Duration
	primary interface {
		Kill()
		Replica(port int) (*servers.Server, error)
	}
	stream  *servers.Proxy // from the primary to the replica
	replica *servers.Server
	front   *servers.Proxy // in front of the primary
}

func startPair(ttl time.Duration, w fault.Wants) (*Rig, error) {
	d, err := startPostgres(ttl, false, w, "wal_level=replica", "max_wal_senders=4")
	if err != nil {
		return nil, err
	}
	p := &pair{rig: &Rig{Servers: []server.Server{d}}, ttl: ttl, primary: d}
	if err := p.replicate(d.Addr); err != nil {
		return p.rig, err
	}
	p.front, err = servers.NewProxy(d.Addr)
	if err != nil {
		return p.rig, err
	}
	p.rig.stop = append(p.rig.stop, p.front.Close)
	p.rig.Addrs, p.rig.Failover = []string{p.front.Addr}, p.failover
	return p.rig, nil
}

// replicate gives the primary, which has this address, a replica.
func (p *pair) replicate(addr string) error {
	var err error
	p.stream, err = servers.NewProxy(addr)
	if err != nil {
		return err
	}
	p.rig.stop = append(p.rig.stop, p.stream.Close)
	p.replica, err = p.primary.Replica(port(p.stream.Addr))
	if err != nil {
		return err
	}
	p.rig.stop = append(p.rig.stop, p.replica.Stop)
	return nil
}

// failover lets the replica take over. It lags by what was written in the last moment before the crash. Then it gets
// a replica of its own, so that another failover finds one.
func (p *pair) failover(context.Context) error {
	p.stream.Close()
	time.Sleep(p.ttl / 5)
	p.primary.Kill()
	if err := p.replica.Promote(); err != nil {
		return err
	}
	p.front.Retarget(p.replica.Addr)
	p.primary = p.replica
	return p.replicate(p.replica.Addr)
}
