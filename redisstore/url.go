// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
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
func parseURL(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	k, known := kinds[strings.Replace(scheme, "valkey", "redis", 1)]
	if !ok || !known {
		return nil, errors.New("redisstore: the URL must begin with redis://, rediss://, redis-sentinel:// or redis-cluster:// (it is not shown, it may hold a password)")
	}
	t := &target{kind: k.kind}
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
			return nil, errors.New("redisstore: the user or password in the URL has a % that is no escape; write %25 for a %")
		}
	} else if strings.Contains(rest+query, "@") {
		return nil, errors.New("redisstore: the password in the URL holds a / or a ?; write %2F and %3F")
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
		return errors.New("redisstore: a cluster has database 0 only; leave the path away")
	}
	t.db = n
	return nil
}

func (t *target) setParameters(query string, secure bool) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("redisstore: the part of the URL after ? is not name=value&name=value")
	}
	var files struct{ ca, cert, key, name string }
	texts := map[string]*string{
		"client_name": &t.clientName, "sentinel_user": &t.sentinel.user, "sentinel_password": &t.sentinel.pass,
		"tls_ca": &files.ca, "tls_cert": &files.cert, "tls_key": &files.key, "tls_server_name": &files.name,
	}
	for name := range values {
		v := values.Get(name)
		var err error
		switch name {
		case "dial_timeout":
			t.dial, err = time.ParseDuration(v)
		case "read_timeout":
			t.read, err = time.ParseDuration(v)
		case "pool_size":
			t.poolSize, err = strconv.Atoi(v)
		default:
			if texts[name] == nil {
				return fmt.Errorf("redisstore: unknown parameter %q in the URL; see redisstore.Open for those there are", name)
			}
			*texts[name] = v
		}
		if err != nil {
			return fmt.Errorf("redisstore: parameter %s in the URL: write 500ms or 2s for a time, digits for a number", name)
		}
	}
	if !secure {
		if files.ca+files.cert+files.key+files.name != "" {
			return errors.New("redisstore: the URL has tls_ parameters but no TLS; write rediss with two s")
		}
		return nil
	}
	t.tls, err = tlsConfig(files.ca, files.cert, files.key, files.name)
	return err
}

// tlsConfig reads the files of a TLS connection. Without a CA the system's count.
func tlsConfig(ca, cert, key, name string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("redisstore: tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redisstore: tls_ca: %s holds no certificate in PEM form", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("redisstore: tls_cert and tls_key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("redisstore: tls_cert and tls_key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
