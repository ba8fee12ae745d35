// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

const defaultPort = "2181"

// Open connects to the ensemble at a URL and returns a store on it. It asks once, so
// that a wrong address is told now. Errors never show a password.
//
//	zk://[user:password@]host[:port][,host[:port]...][/root][?parameters]
//
// The port is 2181 if none is given. The path is Options.Root, user and password are
// Options.Auth. What opts has wins. The parameters:
//
//	tick_time          Options.TickTime, as 2s
//	min_ttl, max_ttl   Options.MinTTL and MaxTTL
func Open(ctx context.Context, text string, opts *Options) (*Store, error) {
	servers, o, err := parseURL(text, opts)
	if err != nil {
		return nil, err
	}
	s, err := New(servers, o)
	if err != nil {
		return nil, err
	}
	c, err := s.aside(ctx, "open "+strings.Join(servers, ","))
	if err == nil {
		_, err = run(c, func(c *call) (struct{}, error) { return struct{}{}, c.catchUp(s) })
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// parseURL does no I/O. It reads the URL by itself because a list of hosts is none to
// net/url, and because that package's errors quote their input.
func parseURL(text string, opts *Options) ([]string, *Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	rest, ok := strings.CutPrefix(text, "zk://")
	if !ok {
		return nil, nil, errors.New("zkstore: the URL must begin with zk:// (it is not shown, it may hold a password)")
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
		o.Auth = pick(o.Auth, user+":"+pass)
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
	if root != "" {
		o.Root = pick(o.Root, "/"+strings.TrimSuffix(root, "/"))
	}
	return servers, &o, o.setParameters(query)
}

func (o *Options) setParameters(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("zkstore: the part of the URL after ? is not name=value&name=value")
	}
	times := map[string]*time.Duration{"tick_time": &o.TickTime, "min_ttl": &o.MinTTL, "max_ttl": &o.MaxTTL}
	for name := range values {
		to := times[name]
		if to == nil {
			return fmt.Errorf("zkstore: unknown parameter %q in the URL; there are tick_time, min_ttl and max_ttl", name)
		}
		d, err := time.ParseDuration(values.Get(name))
		if err != nil {
			return fmt.Errorf("zkstore: parameter %s in the URL: write 500ms or 2s", name)
		}
		*to = pick(*to, d)
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
