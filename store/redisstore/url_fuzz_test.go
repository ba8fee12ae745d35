// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strings"
	"testing"
)

// FuzzParseURL: whatever a password has in it, escaped or not, no error shows it, and it
// does not become the name of a host.
func FuzzParseURL(f *testing.F) {
	for _, seed := range [][4]string{
		{"redis", "", "", "/0"}, {"rediss", "se@cret?", "", "/0"}, {"redis", "p@ss/", "", "?pool_size=1"},
		{"redis-sentinel", "a@", "/x", "/m?sentinel_user=u"}, {"redis-cluster", "a:b", "?x=y", ",h:2"},
		{"valkey", "%", "", ""}, {"redis", "[", "]", "?namspace=x"}, {"redis", "a@b?grace=", "", "?max_ttl=1"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	const secret = "hunter2"
	f.Fuzz(func(t *testing.T, scheme, before, after, tail string) {
		if strings.Contains(scheme+" "+before+" "+after+" "+tail, secret) {
			t.Skip("it is meant to be in one place")
		}
		if strings.Contains(tail, "tls_") {
			t.Skip("it reads files")
		}
		url := scheme + "://u:" + before + secret + after + "@127.0.0.1:1" + tail
		parsed, err := parseURL(url, nil)
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the password: %v", url, err)
			}
			return
		}
		if shown := strings.Join(parsed.Addrs, ",") + parsed.Master; strings.Contains(shown, secret) {
			t.Errorf("%q: the password is shown as %q", url, shown)
		}
		if _, err := parseURL(url, &Options{Namespace: "x"}); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows the password: %v", url, err)
		}
	})
}
