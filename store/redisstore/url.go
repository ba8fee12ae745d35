// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// target is a URL that was understood.
type target struct {
	kind       string // "", "sentinel", "cluster"
	addrs      []string
	user, pass string
	db         int
	master     string
	sentinel   struct{ user, pass string }
	clientName string
	tls        *tls.Config
	dial, read time.Duration
	poolSize   int
	options    Options // the caller's, with the settings that the URL has
}

// kinds are the schemes. "valkey" may stand for "redis" in each.
var kinds = map[string]struct {
	kind   string
	secure bool
}{
	"redis": {"", false}, "rediss": {"", true},
	"redis-sentinel": {"sentinel", false}, "rediss-sentinel": {"sentinel", true},
	"redis-cluster": {"cluster", false}, "rediss-cluster": {"cluster", true},
}

// parseURL reads a URL of the grammar that Open documents. It does so by itself
// because a list of hosts is no URL to net/url, and because the errors of that
// package quote their input. Nothing of the part before the @ and no value of a
// parameter that holds a secret gets into an error.
func parseURL(text string, opts *Options) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	k, known := kinds[strings.Replace(scheme, "valkey", "redis", 1)]
	if !ok || !known {
		return nil, errors.New("redisstore: the URL must begin with redis://, rediss://, redis-sentinel:// or redis-cluster:// (it is not shown, it may hold a password)")
	}
	t := &target{kind: k.kind}
	if opts != nil {
		t.options = *opts
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		name, pass, _ := strings.Cut(authority[:at], ":")
		var err1, err2 error
		t.user, err1 = url.PathUnescape(name)
		t.pass, err2 = url.PathUnescape(pass)
		if err1 != nil || err2 != nil {
			return nil, errors.New("redisstore: the user or password in the URL has a % that is not an escape; write %25 for a %")
		}
	}
	if strings.Contains(path+query, "@") {
		return nil, errors.New("redisstore: the URL has an @ after a / or a ?; in a password write %2F and %3F for these, and %40 for an @")
	}
	if err := t.setHosts(hosts); err != nil {
		return nil, err
	}
	if err := t.setPath(path); err != nil {
		return nil, err
	}
	return t, t.setParameters(query, k.secure)
}

func (t *target) setHosts(hosts string) error {
	port := "6379"
	if t.kind == "sentinel" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, p, err := net.SplitHostPort(host)
		if err != nil {
			name, p = strings.Trim(host, "[]"), port
			if strings.Contains(name, ":") && !strings.HasPrefix(host, "[") {
				return errors.New("redisstore: a host in the URL has several colons; write an IPv6 address in brackets, [::1]:6379")
			}
		}
		if name == "" {
			return errors.New("redisstore: a host is missing in the URL; write redis://host:6379")
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("redisstore: a port in the URL is not a number between 1 and 65535")
		}
		t.addrs = append(t.addrs, net.JoinHostPort(name, p))
	}
	if len(t.addrs) > 1 && t.kind == "" {
		return errors.New("redisstore: redis:// takes one host; for several use redis-sentinel:// or redis-cluster://")
	}
	return nil
}

// setPath reads /db, and /master/db of a Sentinel URL.
func (t *target) setPath(path string) error {
	if t.kind == "sentinel" {
		t.master, path, _ = strings.Cut(path, "/")
		if t.master == "" {
			return errors.New("redisstore: a Sentinel URL names the master, as in redis-sentinel://host:26379/mymaster")
		}
	}
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return errors.New("redisstore: the path of the URL must be the number of a database, as in redis://host:6379/0")
	}
	if t.kind == "cluster" && n != 0 {
		return errors.New("redisstore: a cluster has database 0 only; remove the path")
	}
	t.db = n
	return nil
}
