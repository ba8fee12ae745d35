// SPDX-License-Identifier: Apache-2.0

package treestore

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
)

const (
	defaultPort = "2181"
	securePort  = "2281" // as ZooKeeper's documentation has it; the servers have no default
)

// URL is what the URLs of a package look like.
type URL struct {
	// Package begins every error.
	Package string
	// Scheme is the one without TLS; the one with TLS has an s behind it.
	Scheme string
	// Example is a URL, for errors.
	Example string
}

// Open connects to the ensemble and returns a store on it. It asks once, so that a wrong
// address is reported now.
func Open(ctx context.Context, servers []string, opts Options) (*Store, error) {
	s, err := New(servers, opts)
	if err != nil {
		return nil, err
	}
	var c *call
	err = s.reach(ctx)
	if err == nil {
		c, err = s.aside(ctx, "open "+strings.Join(servers, ","))
	}
	if err == nil {
		_, err = run(c, func(c *call) (struct{}, error) { return struct{}{}, c.catchUp(s) })
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// reach connects to one of the servers, and lets go of it. The client library goes on trying
// at an address where nothing listens, and does not report why.
func (s *Store) reach(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(s.servers))
	for _, server := range s.servers {
		go func() {
			conn, err := s.opts.Dial(ctx, "tcp", server)
			if err == nil {
				err = conn.Close()
			}
			results <- err
		}()
	}
	var first error
	for range s.servers {
		select {
		case err := <-results:
			if err == nil {
				return nil
			}
			if first == nil {
				first = err
			}
		case <-ctx.Done(): // a dialer of the caller's may ignore it
			first = ctx.Err()
		}
	}
	return s.errorf("open %s: %w: %w", strings.Join(s.servers, ","), driver.ErrUnavailable, first)
}

// errorf returns an error of the package.
func (u URL) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{u.Package}, args...)...)
}

// Parse reads a URL into options, and returns its servers and its namespace, with a slash before
// it, or "". More are parameters of the package. It does no I/O. It does not use net/url,
// because that package cannot parse a list of hosts and its errors quote their input.
func (u URL) Parse(text string, o *Options, more storeurl.Parameters) (servers []string, namespace string, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != u.Scheme && scheme != u.Scheme+"s" {
		return nil, "", u.errorf("the URL must begin with %s:// or %ss:// (it is not shown, it may hold a password)", u.Scheme, u.Scheme)
	}
	port := defaultPort
	if scheme != u.Scheme {
		port = securePort
	}
	if storeurl.Misplaced(text) {
		return nil, "", u.errorf("the URL has an @ after the host; in a password write %%2F for /, %%3F for ? and %%23 for #, elsewhere %%40 for @")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, pass, both := strings.Cut(hosts[:at], ":")
		user, err1 := url.PathUnescape(user)
		pass, err2 := url.PathUnescape(pass)
		if err1 != nil || err2 != nil || !both {
			return nil, "", u.errorf("the part of the URL before @ must be user:password; write %%25 for a %%, %%40 for an @, %%2F for a /")
		}
		hosts = hosts[at+1:]
		if err := storeurl.Part(u.Package, "user and password", "Auth", &o.Auth, user+":"+pass); err != nil {
			return nil, "", err
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		if strings.HasPrefix(host, ":") {
			return nil, "", u.errorf("a host is missing in the URL; write %s", u.Example)
		}
		servers = append(servers, host)
	}
	namespace, err = u.parameters(query, o, scheme != u.Scheme, more)
	if namespace = cmp.Or(namespace, strings.TrimSuffix(path, "/")); namespace != "" {
		namespace = "/" + namespace
	}
	return servers, namespace, err
}

// parameters reads the parameters of a URL.
func (u URL) parameters(query string, o *Options, secure bool, more storeurl.Parameters) (namespace string, err error) {
	var ca, cert, key, server string
	all := storeurl.Parameters{
		"namespace": storeurl.Text(&namespace), "tick_time": storeurl.Option("TickTime", &o.TickTime, storeurl.Duration),
		"min_ttl": storeurl.Option("MinTTL", &o.MinTTL, storeurl.Duration), "max_ttl": storeurl.Option("MaxTTL", &o.MaxTTL, storeurl.Duration),
		"tls_ca": storeurl.Text(&ca), "tls_cert": storeurl.Text(&cert), "tls_key": storeurl.Text(&key), "tls_server_name": storeurl.Text(&server),
	}
	maps.Copy(all, more)
	err = all.Read(u.Package, query)
	switch {
	case err != nil:
	case secure:
		var config *tls.Config
		if config, err = storeurl.TLS(u.Package, ca, cert, key, server); err == nil {
			o.Dial = dialTLS(o.Dial, config)
		}
	case ca+cert+key+server != "":
		err = u.errorf("the URL has tls_ parameters but no TLS; write %ss with an s", u.Scheme)
	}
	return namespace, err
}
