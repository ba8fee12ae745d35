// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"

	"github.com/fencelock/fencelock/driver/storeurl"
)

// setParameters reads the part of a URL after the question mark.
func (t *target) setParameters(query string, secure bool) (err error) {
	var files struct{ ca, cert, key, name string }
	o := &t.options
	err = storeurl.Parameters{
		"client_name": storeurl.Text(&t.clientName), "sentinel_user": storeurl.Text(&t.sentinel.user), "sentinel_password": storeurl.Text(&t.sentinel.pass),
		"tls_ca": storeurl.Text(&files.ca), "tls_cert": storeurl.Text(&files.cert), "tls_key": storeurl.Text(&files.key), "tls_server_name": storeurl.Text(&files.name),
		"dial_timeout": storeurl.Duration(&t.dial), "read_timeout": storeurl.Duration(&t.read), "pool_size": storeurl.Number(&t.poolSize),
		"namespace": storeurl.Option("Namespace", &o.Namespace, storeurl.Text), "max_ttl": storeurl.Option("MaxTTL", &o.MaxTTL, storeurl.Duration),
		"buckets": storeurl.Option("Buckets", &o.Buckets, storeurl.Number), "grace": storeurl.Option("Grace", &o.Grace, storeurl.Bool),
		"accept": storeurl.Option("Accept", &o.Accept, storeurl.List),
	}.Read("redisstore", query)
	if err != nil {
		return err
	}
	if !secure {
		if files.ca+files.cert+files.key+files.name != "" {
			return errors.New("redisstore: the URL has tls_ parameters but no TLS; write rediss with two s")
		}
		return nil
	}
	t.tls, err = storeurl.TLS("redisstore", files.ca, files.cert, files.key, files.name)
	return err
}
