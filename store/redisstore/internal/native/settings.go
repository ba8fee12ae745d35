// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// bucketSettings are the settings of one bucket, how many of its sessions ask for more than a change would leave, and
// how long the change has to wait for the end of a grace period.
type bucketSettings struct {
	grace  bool
	maxTTL time.Duration
	more   int64
	waits  time.Duration
}

// Settings implements driver.Configurer. A namespace with several buckets has grace if all of them have it, and the
// highest of their max_ttl.
func (s *Store) Settings(ctx context.Context) ([]driver.Setting, error) {
	var all []bucketSettings
	var set layout
	err := s.operate(ctx, func(l layout) (err error) {
		set = l
		all, err = s.everyBucket(ctx, l, "", "0", "0")
		return err
	})
	if errors.Is(err, errVacant) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: settings: %w", err)
	}
	is := bucketSettings{grace: true}
	for _, one := range all {
		is.grace, is.maxTTL = is.grace && one.grace, max(is.maxTTL, one.maxTTL)
	}
	own := s.own()
	asked := ""
	if own.maxTTL > 0 {
		asked = own.maxTTL.String()
	}
	return []driver.Setting{
		{Name: "grace", Value: strconv.FormatBool(is.grace), Asked: strconv.FormatBool(own.grace),
			Change: "on: at any time, by a process that asks for it; off: when no process asks for it any more"},
		{Name: "max_ttl", Value: is.maxTTL.String(), Asked: asked,
			Change: "up: at any time, by a process that asks for it; down: when no process has a longer TTL or asks for more"},
		{Name: "buckets", Value: strconv.Itoa(set.buckets), Asked: strconv.Itoa(s.layout.buckets),
			Change: "not while processes use the namespace: see docs/redis-layout.md"},
	}, nil
}

// Configure implements driver.Configurer.
func (s *Store) Configure(ctx context.Context, name, value string) error {
	number, err := settingOf(name, value)
	if err != nil {
		return err
	}
	err = s.operate(ctx, func(set layout) error {
		// First all buckets are asked, so that one that refuses leaves none changed.
		for _, change := range []string{"0", "1"} {
			all, err := s.everyBucket(ctx, set, name, number, change)
			if err != nil {
				return err
			}
			for _, one := range all {
				switch {
				case one.more > 0:
					return fmt.Errorf("%d open sessions ask for more; deploy their processes with %s=%s first, then repeat this: %w",
						one.more, name, value, driver.ErrRefused)
				case one.waits > 0:
					return fmt.Errorf("the store is new or was reset, and not all processes have come back; repeat this in %v: %w", one.waits.Round(time.Second), driver.ErrRefused)
				}
			}
			if change == "1" {
				return s.complete(ctx, set, all)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redisstore: set %s=%s in the namespace %q: %w", name, value, s.opts.Namespace, err)
	}
	return nil
}

// complete sets up the buckets of a namespace with grace that no process has used yet: one that does not ask for grace would
// begin them without.
func (s *Store) complete(ctx context.Context, set layout, all []bucketSettings) error {
	var has asks
	for _, one := range all {
		has = has.and(known{grace: one.grace, maxTTL: one.maxTTL})
	}
	if !has.grace || len(all) == set.buckets {
		return nil
	}
	for b := range set.buckets {
		base := s.buckets.key(strconv.Itoa(b), set.buckets)
		args := s.args(set, base, "0", nil)
		args[len(args)-1] = has.text()
		reply, err := s.client.Eval(ctx, touchScript, keys(base, nil), args)
		if err == nil {
			err = s.verdict(reply)
		}
		if err != nil {
			return s.explain(err)
		}
	}
	return nil
}

// settingOf is the value of a setting as the script reads it.
func settingOf(name, value string) (string, error) {
	switch name {
	case "grace":
		on, err := strconv.ParseBool(value)
		if err != nil {
			return "", fmt.Errorf("redisstore: grace is %q; it must be true or false", value)
		}
		if on {
			return "1", nil
		}
		return "0", nil
	case "max_ttl":
		d, err := time.ParseDuration(value)
		if err != nil || d < minTTL {
			return "", fmt.Errorf("redisstore: max_ttl is %q; it must be a duration of at least %v, such as 15s", value, minTTL)
		}
		return ms(d), nil
	case "buckets":
		return "", fmt.Errorf("redisstore: the number of buckets cannot be changed while processes use the namespace; see docs/redis-layout.md: %w", driver.ErrRefused)
	}
	return "", fmt.Errorf("redisstore: there is no setting %q; there are grace and max_ttl", name)
}

// everyBucket runs the script of settings in all buckets that are set up. It returns errVacant if none is.
func (s *Store) everyBucket(ctx context.Context, set layout, name, value, change string) (all []bucketSettings, err error) {
	for b := range set.buckets {
		reply, err := s.callWith(ctx, set, settingsScript, strconv.Itoa(b), nil, "0", name, value, change)
		if errors.Is(err, errVacant) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r := rediscmd.Reader{Rest: reply[1:]}
		all = append(all, bucketSettings{r.Number() == 1, r.Millis(), r.Number(), r.Millis()})
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	if all == nil {
		return nil, errVacant
	}
	return all, nil
}

// Begin implements driver.Configurer.
func (s *Store) Begin(ctx context.Context) error {
	already := fmt.Errorf("redisstore: the namespace %q is set up: earlier leases may be trusted, so a data loss needs its grace period: %w", s.opts.Namespace, driver.ErrRefused)
	switch _, err := s.everyBucket(ctx, s.layout, "", "0", "0"); {
	case err == nil || errors.Is(err, driver.ErrRefused):
		return already
	case !errors.Is(err, errVacant):
		return err
	}
	for b := range s.layout.buckets {
		reply, err := s.call(ctx, beginScript, strconv.Itoa(b), "0", nil)
		if err != nil {
			return err
		}
		if len(reply) == 2 && reply[1] != int64(1) {
			return already
		}
	}
	return nil
}
