// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
)

var form = storekit.Form{Package: "etcdstore", Scheme: "etcd", Port: Port}

func TestParseURL(t *testing.T) {
	a, err := parseURL(form, "etcd://ann:p%40ss@one,two:1234,[::1]/team/app?dial_timeout=2s", Options{}, nil)
	must.OK(t, err)
	if got := strings.Join(a.config.Endpoints, " "); got != "http://one:2379 http://two:1234 http://[::1]:2379" {
		t.Errorf("endpoints %s", got)
	}
	if a.config.Username != "ann" || a.config.Password != "p@ss" || a.options.Namespace != "team/app" || a.config.DialTimeout != 2*time.Second {
		t.Errorf("got user %q, namespace %q, dial timeout %v", a.config.Username, a.options.Namespace, a.config.DialTimeout)
	}
	a, err = parseURL(form, "etcd://host/path?namespace=team&max_ttl=30s", Options{}, nil)
	if err != nil || a.options.Namespace != "team" || a.options.MaxTTL != 30*time.Second {
		t.Errorf("got %+v, %v", a, err)
	}
	a, err = parseURL(form, "etcds://host?tls_server_name=x", Options{}, nil)
	if err != nil || a.config.TLS == nil || a.config.TLS.ServerName != "x" || a.config.Endpoints[0] != "https://host:2379" {
		t.Errorf("etcds: %+v, %v", a, err)
	}
}

func TestBadURLsAreErrorsWithoutSecrets(t *testing.T) {
	for _, text := range []string{
		"http://host", "etcd://secret@host", "etcd://:secret@host", "etcd://u:secret@host/%zz", "etcd://host?x=1", "etcd://host?dial_timeout=2", "etcd://host?dial_timeout=-2s", "etcds://host?tls_ca=/nowhere/to/be/found",
	} {
		_, err := parseURL(form, text, Options{}, nil)
		if err == nil {
			t.Errorf("%q is accepted", text)
		} else if strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "etcdstore: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestOptionsAndURLMustNotDiffer: a setting in both places must have one value.
func TestOptionsAndURLMustNotDiffer(t *testing.T) {
	opts := Options{Namespace: "mine", MaxTTL: 20 * time.Second}
	storetest.Differ(t, func(url string) error { _, err := parseURL(form, url, opts, nil); return err }, map[string]string{
		"etcd://h/path":        "Options.Namespace",
		"etcd://h?namespace=x": "Options.Namespace",
		"etcd://h?max_ttl=30s": "Options.MaxTTL",
	}, "etcd://h/path?namespace=mine&max_ttl=20s")
}
