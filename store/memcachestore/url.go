// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("memcached")...) }

var form = storekit.Form{Package: "memcachestore", Scheme: "memcached", Port: "11211"}

// Open connects to the server at a URL and returns a store on it. It sends
// one request, so that a wrong address is reported at once.
//
//	memcached://host[:port][?parameters]
//	memcacheds://host[:port][?parameters]    over TLS
//
// The port is 11211 if none is given. A setting that is also in opts must have the same
// value there. The parameters:
//
//	namespace   Options.Namespace
//	timeout     Options.Timeout, as 500ms or 2s
//	idle        Options.Idle
//
// and, over TLS,
//
//	tls_ca             file with the certificates to trust, instead of the system's
//	tls_cert, tls_key  files of the client's certificate
//	tls_server_name    name to expect in the server's certificate, instead of the host
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	addr, o, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	s, err := New(addr, o)
	if err != nil {
		return nil, err
	}
	_, err = run(ctx, s, "open "+addr, func(c *call) (struct{}, error) {
		if err := s.client.Ping(); err != nil {
			return struct{}{}, c.failed(err)
		}
		return struct{}{}, nil
	})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// parseURL does no I/O.
func parseURL(text string, opts *Options) (string, *Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	a, err := form.Parse(text)
	switch {
	case err != nil:
		return "", nil, err
	case a.User != nil:
		return "", nil, a.Errorf("the URL has a user, and the text protocol of memcached has no users; restrict access by the network or by TLS")
	case len(a.Hosts) > 1 || a.Path != "":
		return "", nil, a.Errorf("write memcached://host:port, one host and no path; for several servers use package shard")
	}
	err = a.ReadParameters(storekit.Parameters{
		"namespace": storekit.Option("Namespace", &o.Namespace, storekit.Text),
		"timeout":   storekit.Option("Timeout", &o.Timeout, storekit.Duration), "idle": storekit.Option("Idle", &o.Idle, storekit.Number),
	})
	if a.Secure && o.Dial == nil {
		o.Dial = a.Dialer(nil)
	}
	return a.Hosts[0], &o, err
}
