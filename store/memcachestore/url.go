// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
)

const defaultPort = "11211"

func init() { driver.Register(opener, "memcached", "memcacheds") }

// opener is Open for driver.OpenStore. It refuses no server, so it has no use for the options.
func opener(ctx context.Context, url string, _ driver.OpenOptions) (driver.OpenedStore, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

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
	if storeurl.Misplaced(text) {
		return "", nil, errors.New("memcachestore: the URL has an @ after the host; write %40 (it is not shown, it may hold a password)")
	}
	u, err := url.Parse(text)
	if err != nil { // it quotes its input, which may hold a password
		return "", nil, errors.New("memcachestore: the URL cannot be read; write memcached://host:port, and %25 for a % (it is not shown, it may hold a password)")
	}
	switch {
	case u.Scheme != "memcached" && u.Scheme != "memcacheds":
		return "", nil, errors.New("memcachestore: the URL must begin with memcached:// or memcacheds://")
	case u.User != nil:
		return "", nil, errors.New("memcachestore: the URL has a user, and the text protocol of memcached has no users; restrict access by the network or by TLS")
	case u.Hostname() == "" || u.Path != "" && u.Path != "/":
		return "", nil, errors.New("memcachestore: write memcached://host:port, one host and no path; for several servers use package shard")
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if u.Scheme == "memcacheds" && o.Dial == nil {
		o.Dial = (&tls.Dialer{Config: &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}).DialContext
	}
	return net.JoinHostPort(u.Hostname(), port), &o, o.setParameters(u.RawQuery)
}

// setParameters reads the parameters of a URL.
func (o *Options) setParameters(query string) error {
	return storeurl.Parameters{
		"namespace": storeurl.Option("Namespace", &o.Namespace, storeurl.Text),
		"timeout":   storeurl.Option("Timeout", &o.Timeout, storeurl.Duration), "idle": storeurl.Option("Idle", &o.Idle, storeurl.Number),
	}.Read("memcachestore", query)
}
