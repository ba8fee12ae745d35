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
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
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

func init() { driver.Register(opener, "etcd", "etcds") }

// opener is Open for driver.OpenStore. It refuses no server, so it has no use for the options.
func opener(ctx context.Context, url string, _ driver.OpenOptions) (driver.OpenedStore, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open connects to the cluster at a URL and returns a store that owns its client:
// Store.Close closes it. It asks the cluster once, so that a wrong address or password is
// reported now. It gives up when ctx ends, or after dial_timeout; the store does not use
// ctx after that. Errors never show a password.
//
//	etcd://[user:password@]host[:port][,host[:port]...][/namespace][?parameters]
//
// With etcds everything goes over TLS. The port is 2379 if none is given. Name all
// members: a client goes on with another one when one is down. User and password are
// escaped with % as everywhere in URLs. A setting that is in opts, too, must have the same
// value there. The parameters:
//
//	namespace          Options.Namespace, instead of the path
//	max_ttl            Options.MaxTTL, as 30s
//	dial_timeout       how long connecting may take, 5s
//	tls_ca             file with the certificates to trust, instead of the system's
//	tls_cert, tls_key  files of the client's certificate
//	tls_server_name    name to expect in the servers' certificates, instead of the host
//
// A URL with a password does not belong in a command line, where every user of the
// machine can read it: take it from the environment or a file.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	t, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	if _, err := t.options.filled(); err != nil {
		return nil, err
	}
	if err := reach(ctx, t); err != nil {
		return nil, err
	}
	client, err := dial(ctx, t)
	if err != nil {
		return nil, err
	}
	s, err := New(client, &t.options)
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

// reach connects to one of the hosts, and closes the connection. The client itself goes on
// trying at an address where nothing listens, or where TLS fails, and does not report why.
func reach(ctx context.Context, a *address) error {
	ctx, cancel := context.WithTimeout(ctx, a.config.DialTimeout)
	defer cancel()
	results := make(chan error, len(a.hosts))
	for _, host := range a.hosts {
		go func() {
			results <- a.reachHost(ctx, host)
		}()
	}
	var first error
	for range a.hosts {
		err := <-results
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("etcdstore: open %s: %w: %w", strings.Join(a.hosts, ","), driver.ErrUnavailable, first)
}

// reachHost connects to a host, over TLS if the URL says so.
func (a *address) reachHost(ctx context.Context, host string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if a.config.TLS == nil {
		return nil
	}
	config := a.config.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(host)
	}
	err = tls.Client(conn, config).HandshakeContext(ctx)
	var untrusted *tls.CertificateVerificationError
	var otherName x509.HostnameError
	var unknownCA x509.UnknownAuthorityError
	var alert *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &otherName):
		return fmt.Errorf("the server's certificate is for another name; give that name by tls_server_name=NAME in the URL: %w", err)
	case errors.As(err, &unknownCA):
		return fmt.Errorf("the server's certificate is not trusted; give its CA by tls_ca=FILE in the URL: %w", err)
	case errors.As(err, &untrusted): // it has expired, for example
		return fmt.Errorf("the server's certificate is not valid: %w", err)
	case errors.As(err, &alert) && alert.Op == "remote error":
		return fmt.Errorf("the server refused the TLS handshake; if it wants a certificate of the client, give it by tls_cert=FILE and tls_key=FILE in the URL: %w", err)
	}
	return fmt.Errorf("no TLS handshake; if the server does not use TLS, write etcd:// without s: %w", err)
}

// dial makes the client. If there is a user it logs in, for as long as dial_timeout
// allows, and is stopped when ctx ends: by itself it would ignore ctx.
func dial(ctx context.Context, a *address) (*clientv3.Client, error) {
	clientCtx, end := context.WithCancel(context.WithoutCancel(ctx))
	a.config.Context = clientCtx
	release := context.AfterFunc(ctx, end)
	client, err := clientv3.New(a.config)
	if !release() && err == nil { // ctx has ended, and with it the client's context
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
	_, err := clientv3.NewKVFromKVClient(s.kv, s.client).Get(ctx, s.keys.All(), clientv3.WithCountOnly())
	if err == nil {
		return nil
	}
	err = fail(ctx, "open "+strings.Join(s.client.Endpoints(), ","), err, reading)
	if errors.Is(err, context.DeadlineExceeded) && strings.HasPrefix(s.client.Endpoints()[0], "http://") {
		return fmt.Errorf("%w; if the servers use TLS, write etcds:// with an s", err)
	}
	return err
}

// address is a URL that was understood.
type address struct {
	hosts   []string
	options Options // the caller's, with the settings that the URL has
	config  clientv3.Config
}

// parseURL reads a URL of the grammar that Open documents. It does so by itself
// because a list of hosts is no URL to net/url, and because the errors of that
// package quote their input. Nothing of the part before the @ gets into an error.
func parseURL(text string, opts *Options) (*address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "etcd" && scheme != "etcds" {
		return nil, errors.New("etcdstore: the URL must begin with etcd:// or etcds:// (it is not shown, it may hold a password)")
	}
	if storeurl.Misplaced(text) {
		return nil, errors.New("etcdstore: the URL has an @ after the host; in a password write %2F for /, %3F for ? and %23 for #, elsewhere %40 for @")
	}
	a := &address{config: clientv3.Config{Logger: zap.NewNop(), DialTimeout: defaultDial,
		DialKeepAliveTime: probeEvery, DialKeepAliveTimeout: probeTimeout}}
	if opts != nil {
		a.options = *opts
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		if err := a.setUser(authority[:at]); err != nil {
			return nil, err
		}
	}
	if err := a.setHosts(hosts, scheme); err != nil {
		return nil, err
	}
	namespace, err := url.PathUnescape(path)
	if err != nil {
		return nil, errors.New("etcdstore: the namespace in the URL has a % that is not an escape; write %25 for a %")
	}
	return a, a.setParameters(query, namespace, scheme == "etcds")
}

func (a *address) setUser(text string) error {
	name, pass, ok := strings.Cut(text, ":")
	var err1, err2 error
	a.config.Username, err1 = url.PathUnescape(name)
	a.config.Password, err2 = url.PathUnescape(pass)
	if err1 != nil || err2 != nil {
		return errors.New("etcdstore: the user or password in the URL has a % that is not an escape; write %25 for a %")
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

func (a *address) setParameters(query, namespace string, secure bool) error {
	var ca, cert, key, server string
	err := storeurl.Parameters{
		"tls_ca": storeurl.Text(&ca), "tls_cert": storeurl.Text(&cert), "tls_key": storeurl.Text(&key), "tls_server_name": storeurl.Text(&server),
		"dial_timeout": storeurl.Duration(&a.config.DialTimeout), "namespace": storeurl.Text(&namespace),
		"max_ttl": storeurl.Option("MaxTTL", &a.options.MaxTTL, storeurl.Duration),
	}.Read("etcdstore", query)
	if err != nil {
		return err
	}
	if namespace != "" {
		if err := storeurl.Part("etcdstore", "namespace", "Namespace", &a.options.Namespace, namespace); err != nil {
			return err
		}
	}
	if a.config.DialTimeout <= 0 {
		return errors.New("etcdstore: the parameter dial_timeout in the URL takes a positive time, such as 500ms or 2s")
	}
	if !secure {
		if ca+cert+key+server != "" {
			return errors.New("etcdstore: the URL has tls_ parameters but no TLS; write etcds with an s")
		}
		return nil
	}
	a.config.TLS, err = storeurl.TLS("etcdstore", ca, cert, key, server)
	return err
}
