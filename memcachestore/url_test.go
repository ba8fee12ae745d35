// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	addr, o, err := parseURL("memcacheds://host?namespace=n&timeout=2s&idle=3", &Options{Namespace: "mine"})
	if err != nil || addr != "host:11211" || o.Namespace != "mine" || o.Timeout.Seconds() != 2 || o.Idle != 3 || o.Dial == nil {
		t.Errorf("got %q, %+v, %v", addr, o, err)
	}
	for _, bad := range []string{
		"redis://host", "memcached://", "memcached://host/path", "memcached://host?nonsense=1", "memcached://host?timeout=s3cret",
		"memcached://user:s3cret@host", "memcached://user:s3cret%zz@host", "memcached://user:s3cret@host:port", "memcached://user:s3cret#@host",
	} {
		if _, _, err := parseURL(bad, nil); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
