// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/redisstore/internal/goredis"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
)

// Open connects to the server at a URL and returns a store that owns its client: Store.Close
// closes it. The package comment has the grammar of the URLs.
//
// Open checks the servers, as a store from New does later, and returns an error for a wrong
// address or password, or for a server that cannot keep locks. It gives up when ctx ends; the
// store does not use ctx after that. Errors never show a password.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	t, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	client, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s, err := t.store(client)
	if err == nil {
		err = native.CheckAtStart(ctx, s.inner)
		if errors.Is(err, driver.ErrUnavailable) { // a refusal names the server itself
			err = t.Silent(ctx, err)
		}
	}
	if err != nil {
		goredis.Abandon(ctx, client)
		return nil, err
	}
	return s, nil
}

// FromURL is Open without any call to the servers: it is New with a client that it makes
// from the URL and that Store.Close closes. What is wrong with the servers is found when
// the first lock is asked for. Use it for the nodes of a quorum, of which a minority may
// be down when a process starts.
func FromURL(url string, opts *Options) (*Store, error) {
	t, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	client := t.Client()
	s, err := t.store(client)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return s, nil
}

// store makes the store of a client that it owns.
func (t *target) store(client redis.UniversalClient) (*Store, error) {
	return newStore(client, &t.options, client.Close, t.Master)
}

func init() { driver.Register(opener, driver.Variants("redis")...) }

// opener is Open for driver.OpenStore. If the caller wants to read locks of servers on
// which locks are unsafe it asks them whether these can be read. Some cannot, as a Sentinel.
func opener(ctx context.Context, url string, opts driver.OpenOptions) (driver.OpenedStore, error) {
	o := &Options{Warn: opts.Warn}
	s, err := Open(ctx, url, o)
	if err == nil {
		return s, nil
	}
	if opts.Refused == nil || !errors.Is(err, driver.ErrRefused) {
		return nil, err
	}
	s, fromErr := FromURL(url, o)
	if fromErr != nil {
		return nil, err
	}
	if _, readErr := s.Inspect(ctx, "fencelock"); readErr != nil {
		return nil, errors.Join(err, s.Close())
	}
	opts.Refused(err)
	return s, nil
}

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
