// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// receiver reports the error that ends the receiving of a stream.
type receiver struct {
	pb.LeaseClient
	ended chan error
}

type receivingStream struct {
	pb.Lease_LeaseKeepAliveClient
	ended chan error
}

func (r *receiver) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	st, err := r.LeaseClient.LeaseKeepAlive(ctx, opts...)
	return &receivingStream{st, r.ended}, err
}

func (st *receivingStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	resp, err := st.Lease_LeaseKeepAliveClient.Recv()
	if err != nil {
		st.ended <- err
	}
	return resp, err
}

// TestCloseOfAStoreOnAClientEndsItsStream: a store on a client of the caller's does not go on
// receiving after Close, although the client stays open.
func TestCloseOfAStoreOnAClientEndsItsStream(t *testing.T) {
	client := etcdtest.Start(t, 1, servers.QuickEtcd...).Connect(t)
	s, err := New("etcdstore", client, Options{MaxTTL: time.Hour})
	must.OK(t, err)
	r := &receiver{LeaseClient: s.Leases, ended: make(chan error, 10)}
	s.beats.leases = r
	id := driver.NewSessionID()
	se := s.NewSession(id)
	if _, err := se.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if _, err := se.KeepAlive(t.Context()); err != nil {
		t.Fatal(err)
	}
	must.OK(t, se.Revoke(t.Context()))
	must.OK(t, s.Close())
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the store still receives after Close")
	}
	if _, err := client.Get(t.Context(), "any"); err != nil {
		t.Errorf("the client of the caller's after Close: %v", err)
	}
}
