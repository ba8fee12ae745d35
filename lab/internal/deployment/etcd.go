// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcd is three members. Leases last whole seconds, end up to a second late, and
// start again with a new leader.
var etcd = Deployment{Name: "etcd", Lock: "etcd", TTL: 2 * time.Second, SurvivesDataLoss: true, Fair: true, Lingers: true, Quiet: 1, start: startEtcd,
	EndsEarly: func(k fault.Kind) bool { return k.Name == "server-pause-long" && revokes(installedEtcd()) },
	Shape:     fault.Shape{Servers: 3, Replicated: true, Votes: true}, Can: append([]fault.Verb{fault.Failover}, ofPeers...),
	Lacks: map[fault.Verb]string{
		fault.Wipe:  "etcd does not take a member back that lost its data; it has to be replaced",
		fault.Clock: "libfaketime does not reach programs in Go", fault.ClockBack: "libfaketime does not reach programs in Go",
		fault.ClockRate: "libfaketime does not reach programs in Go",
	}}

// revoking are the versions whose leader, when it goes on after a pause, ends leases that the next leader has renewed: etcd
// issue 15247. Package etcdstore warns of them.
var revoking = regexp.MustCompile(`etcd Version: 3\.(4\.([0-9]|[12][0-9]|30)|5\.([0-9]|1[0-2]))\b`)

func revokes(version string) bool { return revoking.MatchString(version) }

// installedEtcd is what the program prints as its version; nothing if there is none.
var installedEtcd = sync.OnceValue(func() string {
	c, err := servers.NewEtcd(1, func(_ int, addr string) (string, error) { return addr, nil })
	if err != nil {
		return ""
	}
	defer c.Stop()
	version, _ := c.Members[0].Server.Version()
	return version
})

func startEtcd(_ time.Duration, _ fault.Wants) (*Rig, error) {
	r := &Rig{Peers: &servers.Peers{}}
	r.stop = append(r.stop, r.Peers.Close)
	// A leader that is silent is replaced soon: cells are short.
	c, err := servers.NewEtcd(3, r.Peers.Front, "--heartbeat-interval", "50", "--election-timeout", "500")
	if err != nil {
		return r, err
	}
	members := c.Members
	for i, m := range members {
		r.Peers.Process(i, m.PID)
		r.Servers, r.Addrs = append(r.Servers, server.Wrap(m.Server)), append(r.Addrs, m.Addr)
	}
	if err := c.Start(); err != nil {
		return r, err
	}
	r.Master = func() (int, error) { return etcdLeader(context.Background(), members) }
	r.Failover = func(ctx context.Context) error { return moveLeader(ctx, members) }
	return r, nil
}

func etcdClient(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: time.Second})
}

func etcdLeader(ctx context.Context, members []*servers.EtcdMember) (int, error) {
	for i, m := range members {
		if m.PID() == 0 {
			continue
		}
		if st, err := status(ctx, m.Addr); err == nil && st.Leader == st.Header.MemberId {
			return i, nil
		}
	}
	return 0, errors.New("no member reports that it is the leader")
}

func status(ctx context.Context, addr string) (*clientv3.StatusResponse, error) {
	c, err := etcdClient(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.Status(ctx, addr)
}

// moveLeader makes another member lead.
func moveLeader(ctx context.Context, members []*servers.EtcdMember) error {
	leader, err := etcdLeader(ctx, members)
	if err != nil {
		return err
	}
	next, err := status(ctx, members[(leader+1)%len(members)].Addr)
	if err != nil {
		return err
	}
	c, err := etcdClient(members[leader].Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = c.MoveLeader(ctx, next.Header.MemberId)
	return err
}
