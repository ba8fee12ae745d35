// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strings"

	"github.com/fencelock/fencelock/driver/storeurl"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
)

// target is a URL that was understood.
type target struct {
	*goredis.Target
	options Options // the caller's, with the settings that the URL has
}

// form is what URLs look like. "valkey" may stand for "redis" in each scheme.
var form = goredis.Form{Package: "redisstore", Scheme: "redis"}

// parseURL reads a URL of the grammar that Open documents.
func parseURL(text string, opts *Options) (*target, error) {
	t := &target{}
	if opts != nil {
		t.options = *opts
	}
	o, f := &t.options, form
	f.More = storeurl.Parameters{
		"namespace": storeurl.Option("Namespace", &o.Namespace, storeurl.Text), "max_ttl": storeurl.Option("MaxTTL", &o.MaxTTL, storeurl.Duration),
		"buckets": storeurl.Option("Buckets", &o.Buckets, storeurl.Number), "grace": storeurl.Option("Grace", &o.Grace, storeurl.Bool),
		"accept": storeurl.Option("Accept", &o.Accept, storeurl.List),
	}
	if rest, ok := strings.CutPrefix(text, "valkey"); ok {
		text = "redis" + rest
	}
	var err error
	t.Target, err = goredis.Parse(text, f)
	return t, err
}
