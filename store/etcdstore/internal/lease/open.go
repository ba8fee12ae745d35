// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

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

// Port is the default port.
const Port = "2379"

// Open connects to the cluster at a URL, whose client it owns. More are the parameters of the store.
func Open(ctx context.Context, form storekit.Form, url string, opts Options, more storekit.Parameters) (*Cluster, error) {
	t, err := parseURL(form, url, opts, more)
	if err != nil {
		return nil, err
	}
	if _, err := t.options.filled(form.Package); err != nil {
		return nil, err
	}
	if err := t.reach(ctx); err != nil {
		return nil, err
	}
	client, err := dial(ctx, t)
	if err != nil {
		return nil, err
	}
	c, err := New(form.Package, client, t.options)
	if err == nil {
		c.owned = true
		err = c.answers(ctx, t.config.DialTimeout)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return c, nil
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
		return nil, failed(ctx, a.Package, "open "+strings.Join(a.Hosts, ","), err, Reading)
	}
	return client, nil
}

// answers asks the cluster whether it is there and lets us in.
func (c *Cluster) answers(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := clientv3.NewKVFromKVClient(c.KV, c.Client).Get(ctx, c.Keys.All(), clientv3.WithCountOnly())
	if err == nil {
		return nil
	}
	err = c.Fail(ctx, "open "+strings.Join(c.Client.Endpoints(), ","), err, Reading)
	if errors.Is(err, context.DeadlineExceeded) && strings.HasPrefix(c.Client.Endpoints()[0], "http://") {
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

// parseURL reads a URL of the grammar that etcdstore.Open documents.
func parseURL(form storekit.Form, text string, opts Options, more storekit.Parameters) (*address, error) {
	base, err := form.Parse(text)
	if err != nil {
		return nil, err
	}
	a := &address{Address: base, options: opts, config: clientv3.Config{Logger: zap.NewNop(), DialTimeout: defaultDial,
		DialKeepAliveTime: probeEvery, DialKeepAliveTimeout: probeTimeout}}
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
	return a, a.setParameters(more)
}

func (a *address) setParameters(more storekit.Parameters) error {
	namespace, err := url.PathUnescape(a.Path)
	if err != nil {
		return a.Errorf("the namespace in the URL has a %% that is not an escape; write %%25 for a %%")
	}
	all := storekit.Parameters{
		"dial_timeout": storekit.Duration(&a.config.DialTimeout), "namespace": storekit.Text(&namespace),
		"max_ttl": storekit.Option("MaxTTL", &a.options.MaxTTL, storekit.Duration),
	}
	maps.Copy(all, more)
	if err := a.ReadParameters(all); err != nil {
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
