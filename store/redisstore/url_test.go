// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
)

// TestParseURL: what a URL of Redis has beyond those of package storekit.
func TestParseURL(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"redis://h", "h:6379"},
		{"valkey://u:p@h:1/2", "h:1 u:p db=2"},
		{"redis://h?dial_timeout=2s&read_timeout=1s&pool_size=7&client_name=c", "h:6379 dial=2s read=1s pool=7 name=c"},
		{"valkeys://h?tls_server_name=n", "h:6379 tls(n)"},
		{"redis-sentinel://a,b:2,c/mymaster/1", "sentinel a:26379,b:2,c:26379 master=mymaster db=1"},
		{"redis-sentinel://u:p@a/m?sentinel_user=su&sentinel_password=sp", "sentinel a:26379 u:p master=m su:sp"},
		{"rediss-sentinel://a/m", "sentinel a:26379 master=m tls()"},
		{"redis-cluster://u:p@a:1,b:2", "cluster a:1,b:2 u:p"},
		{"redis-cluster://a/0", "cluster a:6379"},
	} {
		got, err := parseURL(tt.url, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
		} else if text := got.String(); text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.url, text, tt.want)
		}
	}
}

// String returns what is set, for tests: it shows secrets.
func (t *target) String() string {
	words := []string{strings.Join(t.Hosts, ",")}
	add := func(set bool, format string, args ...any) {
		if set {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	if t.Kind != "" {
		words = append([]string{t.Kind}, words...)
	}
	add(t.User != nil, "%s:%s", t.User.Username(), t.Pass)
	add(t.Master != "", "master=%s", t.Master)
	add(t.DB != 0, "db=%d", t.DB)
	add(t.Sentinel.User+t.Sentinel.Pass != "", "%s:%s", t.Sentinel.User, t.Sentinel.Pass)
	add(t.Dial != 0, "dial=%v", t.Dial)
	add(t.Read != 0, "read=%v", t.Read)
	add(t.PoolSize != 0, "pool=%d", t.PoolSize)
	add(t.ClientName != "", "name=%s", t.ClientName)
	if t.TLS != nil {
		add(true, "tls(%s)", t.TLS.ServerName)
	}
	return strings.Join(words, " ")
}

// TestURLErrors: they say what to write, and never show a secret.
func TestURLErrors(t *testing.T) {
	const secret = "hunter2"
	for _, tt := range []struct{ url, want string }{
		{"http://u:hunter2@h", "must begin with"},
		{"redis-sentinel://127.0.0.1:1/m?sentinel_pasword=hunter2", "did you mean sentinel_password?"},
		{"redis://h?grace=hunter2", "true or false"},
		{"redis://u:hunter2@a,b", "takes one host"},
		{"redis://u:hunter2@h/db", "number of a database"},
		{"redis-sentinel://u:hunter2@h", "names the master"},
		{"redis-cluster://u:hunter2@h/1", "database 0 only"},
		{"redis://h?sentinel_password=hunter2;x=%", "name=value"},
		{"redis://h?password=hunter2", `the unknown parameter "password"; there are accept, buckets`},
		{"redis://h?dial_timeout=hunter2", "dial_timeout"},
	} {
		_, err := parseURL(tt.url, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want one that says %q", tt.url, err, tt.want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the secret: %v", tt.url, err)
		}
	}
}

// TestURLSettings: a URL may have the settings of the namespace.
func TestURLSettings(t *testing.T) {
	s, err := FromURL("redis://h?namespace=orders&grace=true&max_ttl=10s&accept=clock,proxy", &Options{MaxTTL: 10 * time.Second})
	must.OK(t, err)
	defer s.Close()
	if c := s.Caps(); !c.Grace || c.MaxTTL != 10*time.Second || !strings.Contains(s.ACL("u"), "~orders:{orders:*") {
		t.Errorf("got %+v and %s", c, s.ACL("u"))
	}
}

// TestOptionsAndURLMustNotDiffer: a setting in both places must have one value.
func TestOptionsAndURLMustNotDiffer(t *testing.T) {
	opts := &Options{Namespace: "b", MaxTTL: time.Second, Buckets: 1, Grace: true, Accept: []string{"clock"}}
	storetest.Differ(t, func(url string) error { _, err := parseURL(url, opts); return err }, map[string]string{
		"redis://h?namespace=a":  "Options.Namespace",
		"redis://h?max_ttl=2s":   "Options.MaxTTL",
		"redis://h?buckets=2":    "Options.Buckets",
		"redis://h?grace=false":  "Options.Grace",
		"redis://h?accept=proxy": "Options.Accept",
	}, "redis://h?namespace=b&max_ttl=1s&buckets=1&grace=true&accept=clock")
}

// TestOpenErrors: Open reports an unreachable server at once, without the password.
func TestOpenErrors(t *testing.T) {
	for _, url := range []string{
		"redis://u:hunter2@127.0.0.1:1", "redis-sentinel://u:hunter2@127.0.0.1:1/m?sentinel_password=hunter2",
		"redis-cluster://u:hunter2@127.0.0.1:1",
	} {
		t.Run(url[:strings.Index(url, ":")], func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			s, err := Open(ctx, url, nil)
			if err == nil {
				_ = s.Close()
				t.Errorf("%s: nobody is there, and it opened", url)
			} else if strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "127.0.0.1:1") {
				t.Errorf("%s: got %v, want the address and no secret", url, err)
			}
		})
	}
}

// TestOpenStore: every scheme is registered and read as Open does. No server listens.
func TestOpenStore(t *testing.T) {
	for _, name := range driver.Variants("redis") {
		path := ""
		if strings.HasSuffix(name, "-sentinel") {
			path = "/m"
		}
		url := name + "://u:hunter2@127.0.0.1:1" + path + "?"
		storetest.Refused(t, storetest.ByURL(t), map[string]string{
			url + "namspace=x": "did you mean namespace?", url + "migrate=true": "does nothing", url + "max_ttl=hunter2": "max_ttl",
		})
	}
}
