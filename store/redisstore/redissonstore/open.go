// SPDX-License-Identifier: Apache-2.0

package redissonstore

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
)

// form is what URLs look like.
var form = goredis.Form{Package: "redissonstore", Scheme: "redisson"}

func init() { driver.Register(storekit.Opener(Open), driver.Variants("redisson")...) }

// Open connects to the servers of a URL and returns a store that owns its client: Store.Close
// closes it. Open returns an error if no server answers, and never shows a password.
//
//	redisson://[user[:password]@]host[:port][/database][?parameters]
//	redisson-sentinel://[user[:password]@]host[:port][,host[:port]...]/master[/database][?parameters]
//	redisson-cluster://[user[:password]@]host[:port][,host[:port]...][?parameters]
//
// With redissons, redissons-sentinel and redissons-cluster everything goes over TLS. The parameters of
// the connection are those of redisstore.Open, from client_name to tls_server_name. Further there
// are
//
//	read_write   true for RReadWriteLocks, as Options.ReadWrite
//	no_tokens    true for no fencing tokens, as Options.NoTokens
//	prefix       begins the keys of locks, as a NameMapper of the Java programs that puts it before every name
//
// A setting that is in opts, too, must have the same value there.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	f := form
	var prefix string
	f.More = storekit.Parameters{
		"prefix":     storekit.Text(&prefix),
		"read_write": storekit.Option("ReadWrite", &o.ReadWrite, storekit.Bool), "no_tokens": storekit.Option("NoTokens", &o.NoTokens, storekit.Bool),
	}
	t, err := goredis.Parse(url, f)
	if err != nil {
		return nil, err
	}
	switch {
	case prefix == "":
	case o.NameMapper != nil:
		return nil, errors.New("redissonstore: the URL has a prefix and Options a NameMapper; give one of them")
	default:
		o.NameMapper = func(name string) string { return prefix + name }
	}
	client, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newStore(client, &o, client.Close)
}
