// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strings"

	"github.com/fencelock/fencelock/driver/storekit"
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
	f.More = storekit.Parameters{
		"namespace": storekit.Option("Namespace", &o.Namespace, storekit.Text), "max_ttl": storekit.Option("MaxTTL", &o.MaxTTL, storekit.Duration),
		"buckets": storekit.Option("Buckets", &o.Buckets, storekit.Number), "grace": storekit.Option("Grace", &o.Grace, storekit.Bool),
		"accept": storekit.Option("Accept", &o.Accept, storekit.List),
	}
	if rest, ok := strings.CutPrefix(text, "valkey"); ok {
		text = "redis" + rest
	}
	var err error
	t.Target, err = goredis.Parse(text, f)
	return t, err
}
