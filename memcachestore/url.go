// SPDX-License-Identifier: Apache-2.0

package memcachestore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
)

const defaultPort = "11211"

// Open connects to the server at a URL and returns a store on it. It asks the
// server once, so that a wrong address is told now.
//
//	memcached://host[:port][?parameters]
//	memcacheds://host[:port][?parameters]    over TLS
//
// The port is 11211 if none is given. The parameters, which are used where opts
// leaves them open:
//
//	namespace   Options.Namespace
//	timeout     Options.Timeout, as 500ms or 2s
//	idle        Options.Idle
func Open(ctx context.Context, text string, opts *Options) (*Store, error) {
	addr, o, err := parseURL(text, opts)
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
	u, err := url.Parse(text)
	if err != nil {
		return "", nil, fmt.Errorf("memcachestore: %w", err)
	}
	switch {
	case u.Scheme != "memcached" && u.Scheme != "memcacheds":
		return "", nil, errors.New("memcachestore: the URL must begin with memcached:// or memcacheds://")
	case u.User != nil:
		return "", nil, errors.New("memcachestore: the URL has a user; the text protocol of memcached knows none, keep strangers out by the network or by TLS")
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
	return net.JoinHostPort(u.Hostname(), port), &o, o.setParameters(u.Query())
}

func (o *Options) setParameters(values url.Values) error {
	for name := range values {
		v := values.Get(name)
		var err error
		switch name {
		case "namespace":
			o.Namespace = pick(o.Namespace, v)
		case "timeout":
			var d time.Duration
			d, err = time.ParseDuration(v)
			o.Timeout = pick(o.Timeout, d)
		case "idle":
			var n int
			n, err = strconv.Atoi(v)
			o.Idle = pick(o.Idle, n)
		default:
			return fmt.Errorf("memcachestore: unknown parameter %q in the URL; there are namespace, timeout and idle", name)
		}
		if err != nil {
			return fmt.Errorf("memcachestore: parameter %s in the URL: write 500ms or 2s for a time, digits for a number: %w", name, driver.ErrRefused)
		}
	}
	return nil
}

// pick returns a if it is set.
func pick[V comparable](a, b V) V {
	var zero V
	if a != zero {
		return a
	}
	return b
}
