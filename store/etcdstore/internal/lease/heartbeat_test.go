// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// leaseServer is a server whose answers to keep-alives the test gives.
type leaseServer struct {
	pb.LeaseClient
	opened chan *leaseStream
}

// leaseStream is one stream of it.
type leaseStream struct {
	grpc.ClientStream
	ctx     context.Context
	asked   chan int64
	answers chan *pb.LeaseKeepAliveResponse // closed: the stream breaks
}

func (s *leaseServer) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	st := &leaseStream{ctx: ctx, asked: make(chan int64, 10), answers: make(chan *pb.LeaseKeepAliveResponse)}
	s.opened <- st
	return st, nil
}

// Send blocks while asked is full, as at a server that does not read.
func (st *leaseStream) Send(r *pb.LeaseKeepAliveRequest) error {
	select {
	case st.asked <- r.ID:
		return nil
	case <-st.ctx.Done():
		return st.ctx.Err()
	}
}

var errBroken = errors.New("broken")

func (st *leaseStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case r, ok := <-st.answers:
		if !ok {
			return nil, errBroken
		}
		return r, nil
	case <-st.ctx.Done():
		return nil, st.ctx.Err()
	}
}

// answer answers the oldest renewal, in a term.
func (st *leaseStream) answer(term uint64) {
	st.answers <- &pb.LeaseKeepAliveResponse{ID: <-st.asked, TTL: 10, Header: &pb.ResponseHeader{RaftTerm: term}}
}

type termOrError struct {
	term uint64
	err  error
}

func newHeartbeats() (*heartbeats, *leaseServer) {
	server := &leaseServer{opened: make(chan *leaseStream, 10)}
	return &heartbeats{leases: server, members: func() int { return 1 }, idle: time.Hour}, server
}

// start renews a lease in the background.
func (h *heartbeats) start(ctx context.Context, lease int64) <-chan termOrError {
	c := make(chan termOrError, 1)
	go func() {
		_, term, err := h.renew(ctx, lease)
		c <- termOrError{term, err}
	}()
	return c
}

// TestLateAnswerIsNotTaken: the answer to a renewal whose context has ended is not taken for
// the answer to the next renewal, and a renewal of another session that waits on the same
// stream still gets its own.
func TestLateAnswerIsNotTaken(t *testing.T) {
	h, server := newHeartbeats()
	ctx, cancel := context.WithCancel(t.Context())
	first := h.start(ctx, 1)
	old := <-server.opened
	<-old.asked
	other := h.start(t.Context(), 2)
	<-old.asked
	cancel()
	if r := <-first; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("a renewal whose context has ended: %+v", r)
	}
	again := h.start(t.Context(), 1)
	fresh := <-server.opened // it does not wait behind the one that got no answer
	old.answers <- &pb.LeaseKeepAliveResponse{ID: 1, TTL: 10, Header: &pb.ResponseHeader{RaftTerm: 7}}
	old.answers <- &pb.LeaseKeepAliveResponse{ID: 2, TTL: 10, Header: &pb.ResponseHeader{RaftTerm: 8}}
	fresh.answer(9)
	if r := <-other; r.err != nil || r.term != 8 {
		t.Errorf("the renewal of the other session: %+v, want term 8", r)
	}
	if r := <-again; r.err != nil || r.term != 9 {
		t.Errorf("the next renewal: %+v, want the answer of its own stream, term 9", r)
	}
	<-old.ctx.Done() // no renewal waits for it any more
	if err := fresh.ctx.Err(); err != nil {
		t.Errorf("the new stream: %v", err)
	}
}

// TestAnswersOfOneLeaseComeInOrder: two renewals of one lease get the answers in the order of
// sending, although the first does not wait any more.
func TestAnswersOfOneLeaseComeInOrder(t *testing.T) {
	h, server := newHeartbeats()
	ctx, cancel := context.WithCancel(t.Context())
	first := h.start(ctx, 1)
	st := <-server.opened
	<-st.asked
	second := h.start(t.Context(), 1)
	<-st.asked
	cancel()
	<-first
	for term := range uint64(2) {
		st.answers <- &pb.LeaseKeepAliveResponse{ID: 1, TTL: 10, Header: &pb.ResponseHeader{RaftTerm: term}}
	}
	if r := <-second; r.err != nil || r.term != 1 {
		t.Errorf("the second renewal: %+v, want the second answer, of term 1", r)
	}
}

// TestBrokenStreamIsReplacedOnce: a stream that broke since it worked is replaced within the
// renewal. One that breaks before its first answer is not: the server may be down.
func TestBrokenStreamIsReplacedOnce(t *testing.T) {
	h, server := newHeartbeats()
	first := h.start(t.Context(), 1)
	st := <-server.opened
	st.answer(1)
	<-first
	second := h.start(t.Context(), 1)
	<-st.asked
	close(st.answers)
	st = <-server.opened
	st.answer(2)
	if r := <-second; r.err != nil || r.term != 2 {
		t.Errorf("a renewal on a stream that breaks: %+v, want the answer of the next stream", r)
	}
	close(st.answers)
	<-st.ctx.Done()
	third := h.start(t.Context(), 1)
	st = <-server.opened
	close(st.answers)
	if r := <-third; !errors.Is(r.err, errBroken) {
		t.Errorf("a renewal on a stream that never worked: %+v, want its error", r)
	}
}

// TestBrokenStreamIsNotTriedAgain: a renewal that is woken by the end of its stream finds
// another one, although the other renewals of that stream are not woken yet.
func TestBrokenStreamIsNotTriedAgain(t *testing.T) {
	h, _ := newHeartbeats()
	old, _ := h.current()
	<-old.open
	woken := make(chan renewed) // two wait in it: the second one holds up the rest
	h.mu.Lock()
	old.asked[1] = []chan renewed{woken, woken}
	h.mu.Unlock()
	go h.failed(old, errBroken)
	<-woken
	fresh, _ := h.current()
	if fresh == old {
		t.Error("the next try of the renewal is on the stream that has ended")
	}
	<-woken
	h.leave(old)
	h.leave(fresh)
	h.close()
}

// TestSendEndsWithItsContext: a renewal to a server that does not read returns when its
// context ends, and the next one opens another stream.
func TestSendEndsWithItsContext(t *testing.T) {
	h, server := newHeartbeats()
	var sent []<-chan termOrError
	first := h.start(t.Context(), 1)
	st := <-server.opened
	st.answer(1)
	<-first
	for len(st.asked) < cap(st.asked) {
		st.asked <- 1
	}
	for range 2 { // the second waits until the first is sent
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		sent = append(sent, h.start(ctx, 1))
	}
	for _, c := range sent {
		if r := <-c; r.err == nil {
			t.Errorf("a renewal that was not sent: %+v", r)
		}
	}
	next := h.start(t.Context(), 1)
	for fresh := range server.opened {
		if fresh.ctx.Err() == nil {
			fresh.answer(2)
			break
		}
	}
	if r := <-next; r.err != nil || r.term != 2 {
		t.Errorf("the next renewal: %+v, want the answer of another stream, term 2", r)
	}
}

// TestClosedHeartbeatsLeaveNoStream: Close ends the stream as soon as no renewal waits for it,
// and a renewal that comes later leaves none either.
func TestClosedHeartbeatsLeaveNoStream(t *testing.T) {
	h, server := newHeartbeats()
	first := h.start(t.Context(), 1)
	st := <-server.opened
	asked := <-st.asked
	h.close()
	if st.ctx.Err() != nil {
		t.Error("a renewal waits for the stream, which has ended")
	}
	st.answers <- &pb.LeaseKeepAliveResponse{ID: asked, TTL: 10, Header: &pb.ResponseHeader{RaftTerm: 1}}
	if r := <-first; r.err != nil || r.term != 1 {
		t.Errorf("the renewal during Close: %+v, want term 1", r)
	}
	<-st.ctx.Done()
	late := h.start(t.Context(), 1)
	st = <-server.opened
	st.answer(2)
	if r := <-late; r.err != nil || r.term != 2 {
		t.Errorf("the renewal after Close: %+v, want term 2", r)
	}
	<-st.ctx.Done()
}

// TestUnusedStreamEnds: without renewals the stream does not stay open.
func TestUnusedStreamEnds(t *testing.T) {
	h, server := newHeartbeats()
	h.idle = 10 * time.Millisecond
	first := h.start(t.Context(), 1)
	st := <-server.opened
	st.answer(1)
	<-first
	<-st.ctx.Done()
}
