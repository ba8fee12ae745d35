// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/storetest"
)

// TestOpenStore: the scheme is registered and the parameters of all stores are read. No
// server listens.
func TestOpenStore(t *testing.T) {
	for url, want := range map[string]Options{
		"zk://h/path":                                    {Namespace: "path"},
		"zk://h/path/?namespace=team%2Fapp":              {Namespace: "team/app"},
		"zk://h?namespace=team&max_ttl=20s&tick_time=1s": {Namespace: "team", MaxTTL: 20 * time.Second, TickTime: time.Second},
	} {
		_, o, err := parseURL(url, nil)
		if err != nil || o.Root != "/"+want.Namespace || o.MaxTTL != want.MaxTTL || o.TickTime != want.TickTime {
			t.Errorf("%s: got %+v, %v", url, o, err)
		}
	}
	storetest.Refused(t, storetest.ByURL(t), map[string]string{
		"zk://u:hunter2@127.0.0.1:1?namspace=x":  "did you mean namespace?",
		"zk://u:hunter2@127.0.0.1:1?grace=true":  "does nothing",
		"zk://u:hunter2@127.0.0.1:1?max_ttl=1":   "parameter max_ttl",
		"zk://u:hunter2@127.0.0.1:1?namespace=x": "127.0.0.1:1",
	})
}

// TestOptionsAndURLMustNotDiffer: a setting in both places must have one value.
func TestOptionsAndURLMustNotDiffer(t *testing.T) {
	opts := &Options{Namespace: "mine", TickTime: time.Second, MinTTL: 2 * time.Second, MaxTTL: 20 * time.Second, Auth: "ann:secret"}
	storetest.Differ(t, func(url string) error { _, _, err := parseURL(url, opts); return err }, map[string]string{
		"zk://h/path":         "Options.Namespace",
		"zk://h?namespace=x":  "Options.Namespace",
		"zk://h?tick_time=2s": "Options.TickTime",
		"zk://h?min_ttl=1s":   "Options.MinTTL",
		"zk://h?max_ttl=30s":  "Options.MaxTTL",
		"zk://ann:other@h":    "Options.Auth",
	}, "zk://ann:secret@h/path?namespace=mine&tick_time=1s&min_ttl=2s&max_ttl=20s")
}
