// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// schemes are written out, because a test of package driver reads them here. "valkey" may stand for
// "redis" in each.
var schemes = []string{"redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster"}

func init() {
	for _, scheme := range schemes {
		driver.Register(opener, scheme, strings.Replace(scheme, "redis", "valkey", 1))
	}
}

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
