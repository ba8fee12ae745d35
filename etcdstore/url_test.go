// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

func TestParseURL(t *testing.T) {
	a, err := parseURL("etcd://ann:p%40ss@one,two:1234,[::1]/team/app?dial_timeout=2s")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(a.config.Endpoints, " "); got != "http://one:2379 http://two:1234 http://[::1]:2379" {
		t.Errorf("endpoints %s", got)
	}
	if a.config.Username != "ann" || a.config.Password != "p@ss" || a.namespace != "team/app" || a.config.DialTimeout != 2*time.Second {
		t.Errorf("got user %q, namespace %q, dial timeout %v", a.config.Username, a.namespace, a.config.DialTimeout)
	}
	a, err = parseURL("etcds://host?tls_server_name=x")
	if err != nil || a.config.TLS == nil || a.config.TLS.ServerName != "x" || a.config.Endpoints[0] != "https://host:2379" {
		t.Errorf("etcds: %+v, %v", a, err)
	}
}

func TestBadURLsAreErrorsWithoutSecrets(t *testing.T) {
	for _, text := range []string{
		"", "http://host", "etcd://", "etcd://host,", "etcd://host:port", "etcd://host:70000", "etcd://a:b:c",
		"etcd://secret@host", "etcd://u:secret%@host", "etcd://u:se/cret@host", "etcd://host/%zz", "etcd://host?x=1",
		"etcd://host?dial_timeout=2", "etcd://host?dial_timeout=-2s", "etcd://host?tls_ca=secret", "etcds://host?tls_cert=a", "etcd://host?%zz",
		"etcds://host?tls_ca=/nowhere/to/be/found",
	} {
		_, err := parseURL(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
		} else if strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "etcdstore: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOpenTellsAWrongAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := Open(ctx, "etcd://127.0.0.1:1?dial_timeout=300ms", nil)
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v, want an unavailable store with its address", err)
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	if _, err := New(nil, nil); err == nil {
		t.Error("New without a client is accepted")
	}
	for _, o := range []Options{{Namespace: strings.Repeat("x", maxNamespace+1)}, {MaxTTL: -1}, {MaxTTL: time.Millisecond}, {MaxTTL: 1500 * time.Millisecond}} {
		_, err := Open(t.Context(), "etcd://127.0.0.1:1", &o)
		if err == nil || !strings.Contains(err.Error(), "Options.") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
