// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
)

const defaultPort = "2181"

func init() { driver.Register(opener, "zk") }

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
//
// The port is 2181 if none is given. The path is Options.Root, user and password are
// Options.Auth. A setting that is in opts, too, must have the same value there. The
// parameters:
//
//	namespace          Options.Root without its first slash, instead of the path
//	tick_time          Options.TickTime, as 2s
//	min_ttl, max_ttl   Options.MinTTL and MaxTTL
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
	rest, ok := strings.CutPrefix(text, "zk://")
	if !ok {
		return nil, nil, errors.New("zkstore: the URL must begin with zk:// (it is not shown, it may hold a password)")
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
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		if strings.HasPrefix(host, ":") {
			return nil, nil, errors.New("zkstore: a host is missing in the URL; write zk://host1:2181,host2:2181,host3:2181/fencelock")
		}
		servers = append(servers, host)
	}
	return servers, &o, o.setParameters(query, root)
}

// setParameters reads the path and the parameters of a URL.
func (o *Options) setParameters(query, path string) error {
	namespace := ""
	err := storeurl.Parameters{
		"namespace": storeurl.Text(&namespace), "tick_time": storeurl.Option("TickTime", &o.TickTime, storeurl.Duration),
		"min_ttl": storeurl.Option("MinTTL", &o.MinTTL, storeurl.Duration), "max_ttl": storeurl.Option("MaxTTL", &o.MaxTTL, storeurl.Duration),
	}.Read("zkstore", query)
	namespace = cmp.Or(namespace, strings.TrimSuffix(path, "/"))
	if err != nil || namespace == "" {
		return err
	}
	return storeurl.Part("zkstore", "namespace", "Root", &o.Root, "/"+namespace)
}
