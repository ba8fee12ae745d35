// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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

func init() { driver.Register(opener, "zk", "zks") }

// opener is Open for driver.OpenStore. It refuses no server, so it has no use for the options.
func opener(ctx context.Context, url string, _ driver.OpenOptions) (driver.OpenedStore, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open connects to the ensemble at a URL and returns a store on it. It asks once, so
// that a wrong address is reported now. Errors never show a password.
//
//	zk://[user:password@]host[:port][,host[:port]...][/root][?parameters]
//	zks://...
//
// zks is TLS, to the secureClientPort of the servers. The port is 2181 if none is given, with
// zks 2281. The path is Options.Root, user and password are
// Options.Auth. A setting that is in opts, too, must have the same value there. The
// parameters:
//
//	namespace          Options.Root without its first slash, instead of the path
//	tick_time          Options.TickTime, as 2s
//	min_ttl, max_ttl   Options.MinTTL and MaxTTL
//	tls_ca, tls_cert,  files in PEM form: who signs the servers' certificates, and the
//	tls_key            certificate and key of the client
//	tls_server_name    the name in the servers' certificates, if it is not the host
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	servers, o, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	s, err := New(servers, o)
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
	return fmt.Errorf("zkstore: open %s: %w: %w", strings.Join(s.servers, ","), driver.ErrUnavailable, first)
}

// parseURL does no I/O. It does not use net/url, because that package cannot parse a list
// of hosts and its errors quote their input.
func parseURL(text string, opts *Options) ([]string, *Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "zk" && scheme != "zks" {
		return nil, nil, errors.New("zkstore: the URL must begin with zk:// or zks:// (it is not shown, it may hold a password)")
	}
	port := defaultPort
	if scheme == "zks" {
		port = securePort
	}
	if storeurl.Misplaced(text) {
		return nil, nil, errors.New("zkstore: the URL has an @ after the host; in a password write %2F for /, %3F for ? and %23 for #, elsewhere %40 for @")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, root, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, pass, both := strings.Cut(hosts[:at], ":")
		user, err1 := url.PathUnescape(user)
		pass, err2 := url.PathUnescape(pass)
		if err1 != nil || err2 != nil || !both {
			return nil, nil, errors.New("zkstore: the part of the URL before @ must be user:password; write %25 for a %, %40 for an @, %2F for a /")
		}
		hosts = hosts[at+1:]
		if err := storeurl.Part("zkstore", "user and password", "Auth", &o.Auth, user+":"+pass); err != nil {
			return nil, nil, err
		}
	}
	var servers []string
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		if strings.HasPrefix(host, ":") {
			return nil, nil, errors.New("zkstore: a host is missing in the URL; write zk://host1:2181,host2:2181,host3:2181/fencelock")
		}
		servers = append(servers, host)
	}
	return servers, &o, o.setParameters(query, root, scheme == "zks")
}

// setParameters reads the path and the parameters of a URL.
func (o *Options) setParameters(query, path string, secure bool) error {
	var namespace, ca, cert, key, server string
	err := storeurl.Parameters{
		"namespace": storeurl.Text(&namespace), "tick_time": storeurl.Option("TickTime", &o.TickTime, storeurl.Duration),
		"min_ttl": storeurl.Option("MinTTL", &o.MinTTL, storeurl.Duration), "max_ttl": storeurl.Option("MaxTTL", &o.MaxTTL, storeurl.Duration),
		"tls_ca": storeurl.Text(&ca), "tls_cert": storeurl.Text(&cert), "tls_key": storeurl.Text(&key), "tls_server_name": storeurl.Text(&server),
	}.Read("zkstore", query)
	switch {
	case err != nil:
	case secure:
		var config *tls.Config
		if config, err = storeurl.TLS("zkstore", ca, cert, key, server); err == nil {
			o.Dial = dialTLS(o.Dial, config)
		}
	case ca+cert+key+server != "":
		err = errors.New("zkstore: the URL has tls_ parameters but no TLS; write zks with an s")
	}
	namespace = cmp.Or(namespace, strings.TrimSuffix(path, "/"))
	if err != nil || namespace == "" {
		return err
	}
	return storeurl.Part("zkstore", "namespace", "Root", &o.Root, "/"+namespace)
}
