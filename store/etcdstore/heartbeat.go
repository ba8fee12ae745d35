// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// heartbeat renews the lease of one session on one stream, which is opened again after it
// failed. A stream for each renewal was rejected: on a cluster with users the client logs in
// before it opens a stream, and checking a password costs the server tens of milliseconds of
// processor time. The client's own KeepAlive is not used: it counts from the reply, checks
// its deadlines once a second, and cannot be stopped while it tries.
type heartbeat struct {
	leases pb.LeaseClient
	ctx    context.Context // ends with the session
	stop   context.CancelFunc
	slot   chan struct{} // full while a renewal is under way, which owns the rest
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc // ends stream
}

func newHeartbeat(leases pb.LeaseClient) *heartbeat {
	h := &heartbeat{leases: leases, slot: make(chan struct{}, 1)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// renew keeps a lease alive once, before ctx ends. Any failure ends the stream: an answer
// that is late must not be taken for the answer to another renewal, and a new stream may be
// with another member. A stream that ended since the last renewal is replaced at once.
func (h *heartbeat) renew(ctx context.Context, lease int64) (ttl time.Duration, term uint64, err error) {
	select {
	case h.slot <- struct{}{}:
		defer func() { <-h.slot }()
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	used := h.stream != nil
	resp, err := h.exchange(ctx, lease)
	if err != nil && used && ctx.Err() == nil {
		resp, err = h.exchange(ctx, lease)
	}
	if err != nil {
		return 0, 0, err
	}
	if resp.TTL <= 0 {
		h.drop() // nothing more will be renewed
		return 0, 0, driver.ErrGone
	}
	return time.Duration(resp.TTL) * time.Second, resp.Header.RaftTerm, nil
}

// exchange sends one renewal and takes its answer. The stream outlives ctx, unless ctx ends
// in between.
func (h *heartbeat) exchange(ctx context.Context, lease int64) (*pb.LeaseKeepAliveResponse, error) {
	streamCtx := h.ctx
	if h.stream == nil {
		streamCtx, h.cancel = context.WithCancel(h.ctx)
	}
	release := context.AfterFunc(ctx, h.cancel)
	resp, err := h.send(streamCtx, lease)
	if ended := !release(); ended || err != nil {
		h.drop()
	}
	return resp, err
}

func (h *heartbeat) send(streamCtx context.Context, lease int64) (resp *pb.LeaseKeepAliveResponse, err error) {
	if h.stream == nil {
		if h.stream, err = h.leases.LeaseKeepAlive(streamCtx); err != nil {
			return nil, err
		}
	}
	// If sending fails the stream has ended, and receiving returns why.
	_ = h.stream.Send(&pb.LeaseKeepAliveRequest{ID: lease})
	return h.stream.Recv()
}

// drop ends the stream.
func (h *heartbeat) drop() {
	h.cancel()
	h.stream = nil
}
