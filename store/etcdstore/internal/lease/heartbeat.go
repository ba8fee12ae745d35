// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// heartbeats renews the leases of all sessions of a store on one stream, which is opened again
// after it failed. A stream for each renewal was rejected: on a cluster with users the client
// logs in before it opens a stream, and checking a password costs the server tens of
// milliseconds of processor time. The client's own KeepAlive is not used: it counts from the
// reply, checks its deadlines once a second, and cannot be stopped while it tries.
type heartbeats struct {
	leases  pb.LeaseClient
	members func() int    // how many there are
	idle    time.Duration // without a renewal for so long, no session is left

	mu     sync.Mutex
	stream *beats // for the next renewal; nil: it opens one
	closed bool   // a renewal has a stream to itself from now on
}

// beats is one stream and the renewals that wait for its answers. A renewal whose context ends
// leaves the stream to those that were sent before: a late answer must not be taken for the
// answer to a later renewal, and a new stream may be with another member.
type beats struct {
	cancel context.CancelFunc
	open   chan struct{} // closed when conn is set, or the stream has failed
	conn   pb.Lease_LeaseKeepAliveClient
	slot   chan struct{} // full while a renewal is sent

	// Guarded by the mu of heartbeats.
	waiting  int                      // renewals that wait for an answer
	asked    map[int64][]chan renewed // by lease, in the order of sending
	answered bool                     // it has worked
	err      error                    // why it has ended
	last     *time.Timer              // ends it when it is not used any more
}

// renewed is the answer to a renewal.
type renewed struct {
	resp *pb.LeaseKeepAliveResponse
	err  error
}

// renew keeps a lease alive once, before ctx ends. A stream that ended since the last renewal
// is replaced at once, and so is one that a member refused which serves nobody now.
func (h *heartbeats) renew(ctx context.Context, lease int64) (ttl time.Duration, term uint64, err error) {
	var resp *pb.LeaseKeepAliveResponse
	for tries := 0; ; tries++ {
		b, used := h.current()
		if resp, err = h.ask(ctx, b, lease); err == nil {
			break
		}
		if again := used || notServed(err); !again || tries > h.members() || ctx.Err() != nil {
			return 0, 0, err
		}
	}
	if resp.TTL <= 0 {
		return 0, 0, driver.ErrGone
	}
	return time.Duration(resp.TTL) * time.Second, resp.Header.RaftTerm, nil
}

// current returns the stream of the next renewal, which waits for it from now on, and reports
// whether the stream has worked before.
func (h *heartbeats) current() (b *beats, used bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b = h.stream
	if b == nil {
		ctx, cancel := context.WithCancel(context.Background())
		b = &beats{cancel: cancel, open: make(chan struct{}), slot: make(chan struct{}, 1), asked: map[int64][]chan renewed{}}
		b.last = time.AfterFunc(h.idle, func() { h.retire(b) })
		if !h.closed {
			h.stream = b
		}
		go h.receive(ctx, b)
	}
	b.waiting++
	b.last.Reset(h.idle)
	return b, b.answered
}

// ask sends one renewal and waits for its answer.
func (h *heartbeats) ask(ctx context.Context, b *beats, lease int64) (*pb.LeaseKeepAliveResponse, error) {
	defer h.leave(b)
	answer, err := h.send(ctx, b, lease)
	if err == nil {
		select {
		case r := <-answer:
			return r.resp, r.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	h.retire(b)
	return nil, err
}

// send sends one renewal, and returns where its answer comes.
func (h *heartbeats) send(ctx context.Context, b *beats, lease int64) (<-chan renewed, error) {
	select {
	case <-b.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case b.slot <- struct{}{}:
		defer func() { <-b.slot }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answer := make(chan renewed, 1)
	h.mu.Lock()
	err := b.err
	if err == nil {
		b.asked[lease] = append(b.asked[lease], answer)
	}
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// Send knows no context and blocks while the server does not read: ending the stream is the
	// only way out, and the renewals that wait on it have no better chance.
	stop := context.AfterFunc(ctx, b.cancel)
	defer stop()
	// If sending fails the stream has ended, and receive passes on why.
	_ = b.conn.Send(&pb.LeaseKeepAliveRequest{ID: lease})
	return answer, nil
}

// leave ends the wait of a renewal.
func (h *heartbeats) leave(b *beats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b.waiting--
	h.endLocked(b)
}

// retire lets later renewals open another stream. This one ends after the last answer that a
// renewal waits for.
func (h *heartbeats) retire(b *beats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retireLocked(b)
}

// retireLocked is retire; h.mu must be held.
func (h *heartbeats) retireLocked(b *beats) {
	if h.stream == b {
		h.stream = nil
	}
	h.endLocked(b)
}

// close retires the stream. A renewal that comes later leaves no stream behind.
func (h *heartbeats) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.stream != nil {
		h.retireLocked(h.stream)
	}
}

// endLocked ends a stream that has no use; h.mu must be held.
func (h *heartbeats) endLocked(b *beats) {
	if h.stream != b && b.waiting == 0 {
		b.last.Stop()
		b.cancel()
	}
}

// receive opens a stream and passes its answers on until it ends.
func (h *heartbeats) receive(ctx context.Context, b *beats) {
	conn, err := h.leases.LeaseKeepAlive(ctx)
	b.conn = conn
	if err != nil {
		h.failed(b, err)
	}
	close(b.open)
	for err == nil {
		var resp *pb.LeaseKeepAliveResponse
		if resp, err = conn.Recv(); err != nil {
			h.failed(b, err)
			return
		}
		h.mu.Lock()
		b.answered = true
		if asked := b.asked[resp.ID]; len(asked) > 0 {
			asked[0] <- renewed{resp: resp}
			b.asked[resp.ID] = asked[1:]
			if len(asked) == 1 {
				delete(b.asked, resp.ID)
			}
		}
		h.mu.Unlock()
	}
}

// failed ends a stream that is broken, and every renewal that waits for it. No renewal may
// find the error while the stream is the current one: it would try the same stream again.
func (h *heartbeats) failed(b *beats, err error) {
	h.mu.Lock()
	b.err = err
	all := b.asked
	b.asked = nil
	h.retireLocked(b)
	h.mu.Unlock()
	for _, asked := range all {
		for _, answer := range asked {
			answer <- renewed{err: err}
		}
	}
}
