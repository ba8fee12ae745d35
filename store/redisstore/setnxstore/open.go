// SPDX-License-Identifier: Apache-2.0

package setnxstore

import (
	"context"
	"errors"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
	"github.com/redis/go-redis/v9"
)

// form is what URLs look like. Several hosts are those of NewRedlock.
var form = goredis.Form{Package: "setnxstore", Scheme: "setnx", Several: true}

func init() { driver.Register(storekit.Opener(Open), driver.Variants("setnx")...) }

// Open connects to the servers of a URL and returns a store that owns its clients: Store.Close
// closes them. Open never shows a password.
//
//	setnx://[user[:password]@]host[:port][,host[:port]...][/database][?parameters]
//	setnx-sentinel://[user[:password]@]host[:port][,host[:port]...]/master[/database][?parameters]
//	setnx-cluster://[user[:password]@]host[:port][,host[:port]...][?parameters]
//
// With several hosts setnx is NewRedlock: a minority of them may be down. Otherwise it is New, and Open
// returns an error if no server answers. With setnxs, setnxs-sentinel and setnxs-cluster everything goes
// over TLS. The parameters of the connection are those of redisstore.Open, from client_name to
// tls_server_name. Further there are
//
//	prefix    begins the keys of locks: prefix=redlock: is Options.Key "redlock:%s"
//	channel   Options.Channel
//
// A setting that is in opts, too, must have the same value there.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var prefix string // of the URL
	before := func(key *string) func(string) error {
		return func(v string) error {
			prefix, *key = v, v+"%s"
			return nil
		}
	}
	f := form
	f.More = storekit.Parameters{"prefix": storekit.Option("Key", &o.Key, before), "channel": storekit.Option("Channel", &o.Channel, storekit.Text)}
	t, err := goredis.Parse(url, f)
	if err != nil {
		return nil, err
	}
	several := t.Kind == "" && len(t.Hosts) > 1
	switch {
	case strings.Contains(prefix, "%"):
		return nil, errors.New("setnxstore: the parameter prefix in the URL has a %; use a prefix without one")
	case several && o.Channel != "":
		return nil, errors.New("setnxstore: the parameter channel is for one server; remove it, the libraries that lock a majority publish nothing")
	}
	var clients []redis.UniversalClient
	var s *Store
	if several {
		for _, addr := range t.Hosts {
			clients = append(clients, t.ClientOf(addr))
		}
		s, err = NewRedlock(clients, &o)
	} else {
		var client redis.UniversalClient
		if client, err = t.Connect(ctx); err != nil {
			return nil, err
		}
		clients = []redis.UniversalClient{client}
		s, err = New(client, &o)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(clients))
	}
	s.clients = clients
	return s, nil
}

func closeAll(clients []redis.UniversalClient) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
