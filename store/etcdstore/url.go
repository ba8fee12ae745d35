// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	defaultDial = 5 * time.Second
	// A connection that was cut without a word is noticed after these two. etcd
	// does not allow to ask more often than every five seconds.
	probeEvery, probeTimeout = 5 * time.Second, 3 * time.Second
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("etcd")...) }

var form = storekit.Form{Package: "etcdstore", Scheme: "etcd", Port: "2379"}

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
	if err := t.reach(ctx); err != nil {
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

// reach connects to one of the hosts: the client itself does not report why it cannot.
func (a *address) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.config.DialTimeout)
	defer cancel()
	return storekit.Reach(ctx, a.Package, a.Hosts, a.Dialer(nil))
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
		return nil, fail(ctx, "open "+strings.Join(a.Hosts, ","), err, reading)
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
	*storekit.Address
	options Options // the caller's, with the settings that the URL has
	config  clientv3.Config
}

// parseURL reads a URL of the grammar that Open documents.
func parseURL(text string, opts *Options) (*address, error) {
	base, err := form.Parse(text)
	if err != nil {
		return nil, err
	}
	a := &address{Address: base, config: clientv3.Config{Logger: zap.NewNop(), DialTimeout: defaultDial,
		DialKeepAliveTime: probeEvery, DialKeepAliveTimeout: probeTimeout}}
	if opts != nil {
		a.options = *opts
	}
	a.config.Username = a.User.Username()
	a.config.Password, _ = a.User.Password()
	if a.User != nil && (a.config.Username == "" || a.config.Password == "") {
		return nil, a.Errorf("etcd wants a user and a password; write etcd://user:password@host")
	}
	prefix := "http://"
	if a.Secure {
		prefix = "https://"
	}
	for _, host := range a.Hosts {
		a.config.Endpoints = append(a.config.Endpoints, prefix+host)
	}
	return a, a.setParameters()
}

func (a *address) setParameters() error {
	namespace, err := url.PathUnescape(a.Path)
	if err != nil {
		return a.Errorf("the namespace in the URL has a %% that is not an escape; write %%25 for a %%")
	}
	err = a.ReadParameters(storekit.Parameters{
		"dial_timeout": storekit.Duration(&a.config.DialTimeout), "namespace": storekit.Text(&namespace),
		"max_ttl": storekit.Option("MaxTTL", &a.options.MaxTTL, storekit.Duration),
	})
	if err != nil {
		return err
	}
	a.config.TLS = a.TLS
	if namespace != "" {
		if err := storekit.Part(a.Package, "namespace", "Namespace", &a.options.Namespace, namespace); err != nil {
			return err
		}
	}
	if a.config.DialTimeout <= 0 {
		return a.Errorf("the parameter dial_timeout in the URL takes a positive time, such as 500ms or 2s")
	}
	return nil
}
