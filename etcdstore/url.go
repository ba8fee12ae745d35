// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	defaultPort = "2379"
	defaultDial = 5 * time.Second
	// A connection that was cut without a word is noticed after these two. etcd
	// does not allow to ask more often than every five seconds.
	probeEvery, probeTimeout = 5 * time.Second, 3 * time.Second
)

// Open connects to the cluster at a URL and returns a store that owns its client:
// Store.Close closes it. It asks the cluster once, so that a wrong address or
// password is told now. It gives up when ctx ends, or after dial_timeout; later the
// store has nothing to do with ctx. Errors never show a password.
//
//	etcd://[user:password@]host[:port][,host[:port]...][/namespace][?parameters]
//
// With etcds everything goes over TLS. The port is 2379 if none is given. Name all
// members: a client goes on with another one when one is down. The namespace of the
// URL counts if Options name none. User and password are escaped with % as everywhere
// in URLs. The parameters:
//
//	dial_timeout       how long connecting may take, 5s
//	tls_ca             file with the certificates to trust, instead of the system's
//	tls_cert, tls_key  files of the client's certificate
//	tls_server_name    name to expect in the servers' certificates, instead of the host
//
// A URL with a password does not belong in a command line, where every user of the
// machine can read it: take it from the environment or a file.
func Open(ctx context.Context, text string, opts *Options) (*Store, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Namespace == "" {
		o.Namespace = t.namespace
	}
	client, err := dial(ctx, t)
	if err != nil {
		return nil, err
	}
	s, err := New(client, &o)
	if err == nil {
		s.owned = true
		err = s.answers(ctx, t.config.DialTimeout)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return s, nil
}

// dial makes the client. If there is a user it logs in, for as long as dial_timeout
// says, and is told to stop when ctx ends: by itself it would not look at it.
func dial(ctx context.Context, a *address) (*clientv3.Client, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	a.config.Context = life
	release := context.AfterFunc(ctx, end)
	client, err := clientv3.New(a.config)
	if !release() && err == nil { // ctx ended meanwhile, and with it the client's life
		_ = client.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, fail(ctx, "open "+strings.Join(a.hosts, ","), err, reading)
	}
	return client, nil
}

// answers asks the cluster whether it is there and lets us in.
func (s *Store) answers(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := s.client.Get(ctx, s.keys.All(), clientv3.WithCountOnly()); err != nil {
		return fail(ctx, "open "+strings.Join(s.client.Endpoints(), ","), err, reading)
	}
	return nil
}

// address is a URL that was understood.
type address struct {
	hosts     []string
	namespace string
	config    clientv3.Config
}

// parseURL reads a URL of the grammar that Open documents. It does so by itself
// because a list of hosts is no URL to net/url, and because the errors of that
// package quote their input. Nothing of the part before the @ gets into an error.
func parseURL(text string) (*address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "etcd" && scheme != "etcds" {
		return nil, errors.New("etcdstore: the URL must begin with etcd:// or etcds:// (it is not shown, it may hold a password)")
	}
	a := &address{config: clientv3.Config{Logger: zap.NewNop(), DialTimeout: defaultDial,
		DialKeepAliveTime: probeEvery, DialKeepAliveTimeout: probeTimeout}}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		if err := a.setUser(authority[:at]); err != nil {
			return nil, err
		}
	} else if strings.Contains(rest+query, "@") {
		return nil, errors.New("etcdstore: the password in the URL holds a / or a ?; write %2F and %3F")
	}
	if err := a.setHosts(hosts, scheme); err != nil {
		return nil, err
	}
	var err error
	if a.namespace, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("etcdstore: the namespace in the URL has a % that is no escape; write %25 for a %")
	}
	return a, a.setParameters(query, scheme == "etcds")
}

func (a *address) setUser(text string) error {
	name, pass, ok := strings.Cut(text, ":")
	var err1, err2 error
	a.config.Username, err1 = url.PathUnescape(name)
	a.config.Password, err2 = url.PathUnescape(pass)
	if err1 != nil || err2 != nil {
		return errors.New("etcdstore: the user or password in the URL has a % that is no escape; write %25 for a %")
	}
	if !ok || name == "" || pass == "" {
		return errors.New("etcdstore: etcd wants a user and a password; write etcd://user:password@host")
	}
	return nil
}

func (a *address) setHosts(hosts, scheme string) error {
	prefix := "http://"
	if scheme == "etcds" {
		prefix = "https://"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), defaultPort
			if strings.Contains(name, ":") && !strings.HasPrefix(host, "[") {
				return errors.New("etcdstore: a host in the URL has several colons; write an IPv6 address in brackets, [::1]:2379")
			}
		}
		if name == "" {
			return errors.New("etcdstore: a host is missing in the URL; write etcd://host:2379")
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return errors.New("etcdstore: a port in the URL is not a number between 1 and 65535")
		}
		a.hosts = append(a.hosts, net.JoinHostPort(name, port))
		a.config.Endpoints = append(a.config.Endpoints, prefix+net.JoinHostPort(name, port))
	}
	return nil
}

func (a *address) setParameters(query string, secure bool) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("etcdstore: the part of the URL after ? is not name=value&name=value")
	}
	var ca, cert, key, server string
	texts := map[string]*string{"tls_ca": &ca, "tls_cert": &cert, "tls_key": &key, "tls_server_name": &server}
	for name := range values {
		switch {
		case name == "dial_timeout":
			if a.config.DialTimeout, err = time.ParseDuration(values.Get(name)); err != nil || a.config.DialTimeout <= 0 {
				return errors.New("etcdstore: parameter dial_timeout in the URL: write 500ms or 2s")
			}
		case texts[name] != nil:
			*texts[name] = values.Get(name)
		default:
			return fmt.Errorf("etcdstore: unknown parameter %q in the URL; see etcdstore.Open for those there are", name)
		}
	}
	if !secure {
		if ca+cert+key+server != "" {
			return errors.New("etcdstore: the URL has tls_ parameters but no TLS; write etcds with an s")
		}
		return nil
	}
	a.config.TLS, err = tlsConfig(ca, cert, key, server)
	return err
}

// tlsConfig reads the files of a TLS connection. Without a CA the system's count.
func tlsConfig(ca, cert, key, server string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: server}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("etcdstore: tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcdstore: tls_ca: %s holds no certificate in PEM form", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("etcdstore: tls_cert and tls_key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("etcdstore: tls_cert and tls_key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
