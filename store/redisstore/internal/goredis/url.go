// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver/storeurl"
)

// Form is what the URLs of a store look like.
type Form struct {
	// Package begins errors.
	Package string
	// Scheme is the scheme for one server: "redis". With an s behind it everything goes over TLS,
	// and -sentinel or -cluster may follow.
	Scheme string
	// Several is set if Scheme may have several hosts.
	Several bool
	// More are the parameters of the store.
	More storeurl.Parameters
}

// Target is a URL that was understood.
type Target struct {
	Form       Form
	Kind       string // "", "sentinel", "cluster"
	Addrs      []string
	User, Pass string
	DB         int
	Master     string
	Sentinel   struct{ User, Pass string }
	ClientName string
	TLS        *tls.Config
	Dial, Read time.Duration
	PoolSize   int
}

// Parse reads a URL of the grammar that redisstore.Open documents. It does so by itself
// because a list of hosts is no URL to net/url, and because the errors of that
// package quote their input. Nothing of the part before the @ and no value of a
// parameter that holds a secret gets into an error.
func Parse(text string, form Form) (*Target, error) {
	t := &Target{Form: form}
	scheme, rest, ok := strings.Cut(text, "://")
	base, kind, _ := strings.Cut(scheme, "-")
	t.Kind = kind
	secure := base == form.Scheme+"s"
	known := (secure || base == form.Scheme) && (kind == "sentinel" || kind == "cluster" || scheme == base)
	if !ok || !known {
		return nil, t.errorf("the URL must begin with %[1]s://, %[1]ss://, %[1]s-sentinel:// or %[1]s-cluster:// (it is not shown, it may hold a password)", form.Scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		name, pass, _ := strings.Cut(authority[:at], ":")
		var err1, err2 error
		t.User, err1 = url.PathUnescape(name)
		t.Pass, err2 = url.PathUnescape(pass)
		if err1 != nil || err2 != nil {
			return nil, t.errorf("the user or password in the URL has a %% that is not an escape; write %%25 for a %%")
		}
	}
	if strings.Contains(path+query, "@") {
		return nil, t.errorf("the URL has an @ after a / or a ?; in a password write %%2F and %%3F for these, and %%40 for an @")
	}
	if err := t.setHosts(hosts); err != nil {
		return nil, err
	}
	if err := t.setPath(path); err != nil {
		return nil, err
	}
	return t, t.setParameters(query, secure)
}

// errorf makes an error that begins with the name of the store.
func (t *Target) errorf(format string, args ...any) error {
	return fmt.Errorf(t.Form.Package+": "+format, args...)
}

func (t *Target) setHosts(hosts string) error {
	port := "6379"
	if t.Kind == "sentinel" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, p, err := net.SplitHostPort(host)
		if err != nil {
			name, p = strings.Trim(host, "[]"), port
			if strings.Contains(name, ":") && !strings.HasPrefix(host, "[") {
				return t.errorf("a host in the URL has several colons; write an IPv6 address in brackets, [::1]:6379")
			}
		}
		if name == "" {
			return t.errorf("a host is missing in the URL; write %s://host:6379", t.Form.Scheme)
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return t.errorf("a port in the URL is not a number between 1 and 65535")
		}
		t.Addrs = append(t.Addrs, net.JoinHostPort(name, p))
	}
	if len(t.Addrs) > 1 && t.Kind == "" && !t.Form.Several {
		return t.errorf("%[1]s:// takes one host; for several use %[1]s-sentinel:// or %[1]s-cluster://", t.Form.Scheme)
	}
	return nil
}

// setPath reads /db, and /master/db of a Sentinel URL.
func (t *Target) setPath(path string) error {
	if t.Kind == "sentinel" {
		t.Master, path, _ = strings.Cut(path, "/")
		if t.Master == "" {
			return t.errorf("a Sentinel URL names the master, as in %s-sentinel://host:26379/mymaster", t.Form.Scheme)
		}
	}
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return t.errorf("the path of the URL must be the number of a database, as in %s://host:6379/0", t.Form.Scheme)
	}
	if t.Kind == "cluster" && n != 0 {
		return t.errorf("a cluster has database 0 only; remove the path")
	}
	t.DB = n
	return nil
}

// setParameters reads the part of a URL after the question mark.
func (t *Target) setParameters(query string, secure bool) (err error) {
	var files struct{ ca, cert, key, name string }
	all := storeurl.Parameters{
		"client_name": storeurl.Text(&t.ClientName), "sentinel_user": storeurl.Text(&t.Sentinel.User), "sentinel_password": storeurl.Text(&t.Sentinel.Pass),
		"tls_ca": storeurl.Text(&files.ca), "tls_cert": storeurl.Text(&files.cert), "tls_key": storeurl.Text(&files.key), "tls_server_name": storeurl.Text(&files.name),
		"dial_timeout": storeurl.Duration(&t.Dial), "read_timeout": storeurl.Duration(&t.Read), "pool_size": storeurl.Number(&t.PoolSize),
	}
	maps.Copy(all, t.Form.More)
	if err := all.Read(t.Form.Package, query); err != nil {
		return err
	}
	if !secure {
		if files.ca+files.cert+files.key+files.name != "" {
			return t.errorf("the URL has tls_ parameters but no TLS; write %ss instead of %[1]s", t.Form.Scheme)
		}
		return nil
	}
	t.TLS, err = storeurl.TLS(t.Form.Package, files.ca, files.cert, files.key, files.name)
	return err
}
