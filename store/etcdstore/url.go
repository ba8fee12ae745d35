// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("etcd")...) }

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
	form := storekit.Form{Package: "etcdstore", Scheme: "etcd", Port: lease.Port}
	return on(lease.Open(ctx, form, url, opts.settings(), nil))
}
