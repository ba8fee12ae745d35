// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// The client gives consecutive calls to consecutive members, whatever is wrong with these as long as they are connected. A member
// that is cut off from its peers keeps a call until the call's time is over, unless the call says that it needs a leader; then it
// refuses it at once, as a learner does. What was refused so was not done, and is sent again, to the next member.
//
// To leave out the endpoints that refused was rejected: the client has no such choice, and the one that is well now may be the next to fail.

// elsewhere makes a call until a member does not refuse it, once for each member and once more.
func elsewhere[R any](ctx context.Context, members int, call func(ctx context.Context) (R, error)) (R, error) {
	ctx = clientv3.WithRequireLeader(ctx)
	for tries := 0; ; tries++ {
		r, err := call(ctx)
		if err == nil || tries == members || ctx.Err() != nil || !notServed(err) {
			return r, err
		}
	}
}

// kvElsewhere is a KVClient whose calls go elsewhere.
type kvElsewhere struct {
	pb.KVClient
	members func() int
}

// Txn implements pb.KVClient.
func (k kvElsewhere) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return elsewhere(ctx, k.members(), func(ctx context.Context) (*pb.TxnResponse, error) { return k.KVClient.Txn(ctx, r, opts...) })
}

// Range implements pb.KVClient.
func (k kvElsewhere) Range(ctx context.Context, r *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return elsewhere(ctx, k.members(), func(ctx context.Context) (*pb.RangeResponse, error) { return k.KVClient.Range(ctx, r, opts...) })
}

// leasesElsewhere is a LeaseClient whose calls go elsewhere. A stream of keep-alives ends when its member loses its leader.
type leasesElsewhere struct {
	pb.LeaseClient
	members func() int
}

// LeaseGrant implements pb.LeaseClient.
func (l leasesElsewhere) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return elsewhere(ctx, l.members(), func(ctx context.Context) (*pb.LeaseGrantResponse, error) {
		return l.LeaseClient.LeaseGrant(ctx, r, opts...)
	})
}

// LeaseRevoke implements pb.LeaseClient.
func (l leasesElsewhere) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest, opts ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return elsewhere(ctx, l.members(), func(ctx context.Context) (*pb.LeaseRevokeResponse, error) {
		return l.LeaseClient.LeaseRevoke(ctx, r, opts...)
	})
}

// LeaseTimeToLive implements pb.LeaseClient.
func (l leasesElsewhere) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest, opts ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return elsewhere(ctx, l.members(), func(ctx context.Context) (*pb.LeaseTimeToLiveResponse, error) {
		return l.LeaseClient.LeaseTimeToLive(ctx, r, opts...)
	})
}

// LeaseKeepAlive implements pb.LeaseClient.
func (l leasesElsewhere) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return l.LeaseClient.LeaseKeepAlive(clientv3.WithRequireLeader(ctx), opts...)
}

// twice makes a call that may be made twice, and makes it a second time, beside the first, if a part of the time of ctx has gone without an
// answer: a member that is connected and does not answer, because its disk hangs, would otherwise keep the call until all the time has
// gone, and each Open meets such a member with one of its calls. calls is how many are to be made one after the other. The first
// good answer counts, or the last error.
func twice[R any](ctx context.Context, members, calls int, call func(ctx context.Context) (R, error)) (R, error) {
	deadline, ok := ctx.Deadline()
	if !ok || members < 2 {
		return call(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		r   R
		err error
	}
	answers := make(chan answer, 2)
	ask := func() {
		r, err := call(ctx)
		answers <- answer{r, err}
	}
	go ask()
	late := time.NewTimer(time.Until(deadline) / time.Duration(2*calls))
	defer late.Stop()
	for asked := 1; ; {
		select {
		case a := <-answers:
			if asked--; a.err == nil || asked == 0 || !retriable(ctx, a.err) {
				return a.r, a.err
			}
		case <-late.C:
			asked++
			go ask()
		}
	}
}

// retriable reports whether another answer to the same call may be better.
func retriable(ctx context.Context, err error) bool {
	return !leaseThere(err) && !LeaseMissing(err) && !Definite(clientv3.ContextError(ctx, err))
}
