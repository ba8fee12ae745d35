// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/zkstore/internal/zktree"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("zk")...) }

// Open connects to the ensemble at a URL and returns a store on it. It asks once, so
// that a wrong address is reported now. Errors never show a password.
//
//	zk://[user:password@]host[:port][,host[:port]...][/root][?parameters]
//	zks://...
//
// zks is TLS, to the secureClientPort of the servers. The port is 2181 if none is given, with
// zks 2281. The path is Options.Root, user and password are
// Options.Auth. A setting that is in opts, too, must have the same value there. The
// parameters:
//
//	namespace          Options.Root without its first slash, instead of the path
//	tick_time          Options.TickTime, as 2s
//	min_ttl, max_ttl   Options.MinTTL and MaxTTL
//	tls_ca, tls_cert,  files in PEM form: who signs the servers' certificates, and the
//	tls_key            certificate and key of the client
//	tls_server_name    the name in the servers' certificates, if it is not the host
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	servers, o, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	s, err := zktree.Open(ctx, servers, o)
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

func parseURL(url string, opts *Options) ([]string, zktree.Options, error) {
	o := opts.tree()
	servers, namespace, err := zktree.ParseURL("zkstore", "zk", url, &o, nil)
	if err == nil && namespace != "" {
		err = storekit.Part("zkstore", "namespace", "Root", &o.Root, namespace)
	}
	return servers, o, err
}
