// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
)

// TestWrappedClientIsRefused: with one part that adds a prefix, the keys that are written, that a lease has and that are
// watched would have different names.
func TestWrappedClientIsRefused(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	must.OK(t, err)
	defer client.Close()
	if _, err := etcdstore.New(client, nil); err != nil {
		t.Errorf("a plain client: %v", err)
	}
	kv, leases, watcher := client.KV, client.Lease, client.Watcher
	for what, wrap := range map[string]func(){
		"KV":      func() { client.KV = namespace.NewKV(kv, "tenant/") },
		"Lease":   func() { client.Lease = namespace.NewLease(leases, "tenant/") },
		"Watcher": func() { client.Watcher = namespace.NewWatcher(watcher, "tenant/") },
	} {
		client.KV, client.Lease, client.Watcher = kv, leases, watcher
		wrap()
		_, err := etcdstore.New(client, nil)
		if err == nil || !strings.Contains(err.Error(), "the "+what+" of the client was replaced") || !strings.Contains(err.Error(), "Options.Namespace") {
			t.Errorf("a client with another %s: %v, want an error that names it and Options.Namespace", what, err)
		}
	}
	client.KV, client.Lease, client.Watcher = kv, leases, watcher
}
