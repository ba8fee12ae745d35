// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/store/etcdstore"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
)

// TestWrappedClientIsRefused: with a KV that adds a prefix the names of keys that a lease has
// would not be those of the locks.
func TestWrappedClientIsRefused(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := etcdstore.New(client, nil); err != nil {
		t.Errorf("a plain client: %v", err)
	}
	client.KV = namespace.NewKV(client.KV, "tenant/")
	if _, err := etcdstore.New(client, nil); err == nil || !strings.Contains(err.Error(), "Options.Namespace") {
		t.Errorf("a client with a prefix: %v, want an error that names Options.Namespace", err)
	}
}
