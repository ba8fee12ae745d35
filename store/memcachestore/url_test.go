// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/storetest"
)

func TestParseURL(t *testing.T) {
	addr, o, err := parseURL("memcacheds://host?namespace=n&timeout=2s&idle=3", &Options{Namespace: "n"})
	if err != nil || addr != "host:11211" || o.Namespace != "n" || o.Timeout.Seconds() != 2 || o.Idle != 3 || o.Dial == nil {
		t.Errorf("got %q, %+v, %v", addr, o, err)
	}
	for _, bad := range []string{
		"redis://host", "memcached://host/path", "memcached://one,two", "memcached://host?nonsense=1", "memcached://host?timeout=s3cret", "memcached://user:s3cret@host",
	} {
		if _, _, err := parseURL(bad, nil); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestOpenStore: the schemes are registered, and parameters that do nothing are errors. No
// server listens.
func TestOpenStore(t *testing.T) {
	storetest.Refused(t, storetest.ByURL(t), map[string]string{
		"memcached://127.0.0.1:1?namespace=x": "127.0.0.1:1",
		"memcacheds://127.0.0.1:1?namspace=x": "did you mean namespace?",
		"memcached://127.0.0.1:1?max_ttl=1m":  "does nothing",
		"memcached://u:hunter2@127.0.0.1:1":   "has a user",
	})
}

// TestOptionsAndURLMustNotDiffer: a setting in both places must have one value.
func TestOptionsAndURLMustNotDiffer(t *testing.T) {
	opts := &Options{Namespace: "mine", Timeout: time.Second, Idle: 2}
	storetest.Differ(t, func(url string) error { _, _, err := parseURL(url, opts); return err }, map[string]string{
		"memcached://h?namespace=x": "Options.Namespace",
		"memcached://h?timeout=2s":  "Options.Timeout",
		"memcached://h?idle=3":      "Options.Idle",
	}, "memcached://h?namespace=mine&timeout=1s&idle=2")
}
