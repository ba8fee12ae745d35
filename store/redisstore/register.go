// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock/driver"
)

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
