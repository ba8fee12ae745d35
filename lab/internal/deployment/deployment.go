// SPDX-License-Identifier: Apache-2.0

// Package deployment is what the locks are kept on, one file each: which servers to
// start, which lock the clients use, and what the deployment keeps when one of
// its servers loses its data.
package deployment

import (
	"context"
	"slices"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// Deployment is a column of the matrix.
type Deployment struct {
	Name string
	// Lock is the kind of lock that the clients use; see package lock.
	Lock string
	// TTL is that of the cells, 0 for the default.
	TTL time.Duration
	// SurvivesDataLoss is set if a server that loses its data does not make the
	// deployment grant what is held, so that exclusion in time must hold even then.
	// Keeps are the faults that another deployment survives.
	SurvivesDataLoss bool
	Keeps            []string
	// Quiet is for how long nothing is granted after a loss, in TTLs.
	Quiet int
	// Replicated is set if another server can take over while the old one still
	// serves those who have not heard of it.
	Replicated bool
	// Splits are faults by which another server takes over on this deployment, and on
	// others not.
	Splits []string
	// EndsEarly returns whether the program that is installed ends sessions too early in a fault, because of a fault of
	// its own that later versions do not have; nil if no version does.
	EndsEarly func(fault.Kind) bool
	// Fair is set if turns must come in the order of asking while all is calm.
	Fair bool
	// Lingers is set if its store lets locks linger.
	Lingers bool
	// Shape is what there is to break; Clients and TTL are filled in by the cell.
	Shape fault.Shape
	// Can are the faults that not every deployment knows and this one does; Lacks says
	// of others why not, where the usual reason is not the right one.
	Can   []fault.Verb
	Lacks map[fault.Verb]string
	// Pooled is set if a pooler stands before the server.
	Pooled bool
	start  func(ttl time.Duration, w fault.Wants) (*Rig, error)
}

// Keep reports whether a grant that is acknowledged survives a fault.
func (e Deployment) Keep(k fault.Kind) bool {
	return !k.LosesData || e.SurvivesDataLoss || slices.Contains(e.Keeps, k.Name)
}

// Split reports whether a server that was replaced may serve on, or again, in a fault.
func (e Deployment) Split(k fault.Kind) bool {
	return e.Replicated && (k.Splits || slices.Contains(e.Splits, k.Name))
}

// Rig is the running servers of one cell.
type Rig struct {
	Servers []server.Server
	// Addrs are where clients begin; Reach are all addresses that they may be redirected
	// to, those among them. Every client reaches every address through its own
	// proxy.
	Addrs, Reach []string
	// Master returns which server grants, for deployments that can change it. Pooler is
	// which server is one that stands before the others, 0 for none.
	Master func() (int, error)
	Pooler int
	// Reign names the master and since when it is one, for deployments on which two
	// servers may grant at once: another value means that a server took over.
	Reign func() (string, error)
	// Peers is the network between the servers, nil if they have none.
	Peers *servers.Peers
	// Failover makes another server the master, Migrate moves what the lock is
	// kept in; nil if there is no such thing.
	Failover, Migrate func(ctx context.Context) error
	stop              []func()
}

// Start starts the servers. The caller stops the rig.
func (e Deployment) Start(ttl time.Duration, w fault.Wants) (*Rig, error) {
	r, err := e.start(ttl, w)
	if err != nil {
		if r != nil {
			r.Stop()
		}
		return nil, err
	}
	if r.Reach == nil {
		r.Reach = r.Addrs
	}
	return r, nil
}

// special are the faults that not every deployment knows, and the usual reason.
var special = map[fault.Verb]string{
	fault.Flush:        "no command deletes all of its data",
	fault.FlushScripts: "it has no scripts",
	fault.CutPush:      "the watch shares a connection with everything else: see connections-cut",
	fault.Wipe:         "it does not come back without its data",
	fault.Rollback:     "after restoring an old copy, the operator must reset the store; see its document",
	fault.Fill:         "it has no limit of memory to reach",
	fault.FillDisk:     "a full disk is tried on Redis only",
	fault.Duplicate:    "its protocol does not take a request again on another connection",
	fault.Repeat:       "its protocol does not take a request again on another connection",
	fault.Failover:     "it cannot be asked to change its leader",
	fault.Migrate:      "it has no slots",
	fault.Isolate:      "the suite does not cut these servers off from each other",
	fault.Mute:         "the suite does not cut these servers off from each other",
	fault.Deafen:       "the suite does not cut these servers off from each other",
	fault.Clock:        "its clock was not tried",
	fault.ClockBack:    "its clock was not tried",
	fault.ClockRate:    "its clock was not tried",
	fault.Busy:         "it has no scripts",
}

// ofRedis are the special faults of a Redis server.
var ofRedis = []fault.Verb{fault.Flush, fault.FlushScripts, fault.CutPush, fault.Wipe, fault.Rollback, fault.Fill, fault.FillDisk, fault.Duplicate, fault.Repeat, fault.Clock, fault.ClockBack, fault.ClockRate, fault.Busy}

// ofPeers are the faults of the network between servers.
var ofPeers = []fault.Verb{fault.Isolate, fault.Mute, fault.Deafen}

// Unfit says why a step cannot be carried out here, or "".
func (e Deployment) Unfit(s fault.Step) string {
	why, isSpecial := special[s.Verb]
	if own := e.Lacks[s.Verb]; own != "" {
		why = own
	}
	switch {
	case s.Target == "pooler" && !e.Pooled:
		return "no pooler stands before it"
	case isSpecial && !slices.Contains(e.Can, s.Verb):
		return why
	}
	return ""
}

// Stop stops the servers.
func (r *Rig) Stop() {
	for _, s := range slices.Backward(r.Servers) {
		s.Stop()
	}
	for _, s := range r.stop {
		s()
	}
}

// All are the deployments.
var All = []Deployment{redisOne, redisGrace, quorumFive, sentinel, sentinelGrace, cluster, clusterGrace,
	etcd, zookeeper, postgres, postgresPool, postgresPair, mariadb, mysql, memcached}

// Named returns the deployment of that name.
func Named(name string) (Deployment, bool) {
	for _, e := range All {
		if e.Name == name {
			return e, true
		}
	}
	return Deployment{}, false
}
