// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/child"
)

// Etcd is a running etcd server, with its data on disk as it comes.
type Etcd struct {
	*servers.EtcdMember
	process
	uncounted
}

// StartEtcd starts a server. The caller stops it.
func StartEtcd(context.Context) (Server, error) {
	c, err := servers.Etcd(1)
	if err != nil {
		return nil, err
	}
	if err := child.Move(c.Members[0].PID()); err != nil {
		c.Stop()
		return nil, err
	}
	return &Etcd{EtcdMember: c.Members[0], process: process(c.Members[0].PID())}, nil
}

// Addr implements Server.
func (e *Etcd) Addr() string { return e.EtcdMember.Addr }

// Version implements Server.
func (e *Etcd) Version(ctx context.Context) (string, error) {
	v, err := e.EtcdMember.Version(ctx)
	return "etcd " + v, err
}
