// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The bare pair is what every lock on Redis at least does: SET NX PX to take it,
// and a script that compares and deletes to give it back. It has no waiting, no
// renewal, no token and no word when it is lost. It gives the
// context it gets to the client library, and what was cut short stays behind.

// bareTTL is long: nothing here renews.
const bareTTL = time.Hour

// compareAndDelete gives a lock back if the value is still ours.
const compareAndDelete = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) end return 0`

const bareSettings = "SET NX PX and a script that compares and deletes; no waiting, no renewal"

var (
	errTaken = errors.New("the name is taken; the bare pair does not wait")
	errGone  = errors.New("the key was not ours any more")
)

// values makes a value for each acquisition, so that only its owner deletes it.
var values atomic.Uint64

func nextValue() string { return strconv.FormatUint(values.Add(1), 36) }

// BareGoRedis is the bare pair through go-redis.
var BareGoRedis = &Candidate{
	Name: "bare-goredis", Server: "redis", Settings: bareSettings, Plain: []string{"set"},
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client := newGoRedis(at.Addr)
		users := &shared{users: n, close: func() { _ = client.Close() }}
		lockers := make([]Locker, n)
		for i := range lockers {
			lockers[i] = &bareGoRedis{users, client, redis.NewScript(compareAndDelete)}
		}
		return lockers, nil
	},
}

type bareGoRedis struct {
	*shared
	client *redis.Client
	remove *redis.Script
}

func (b *bareGoRedis) take(ctx context.Context, name, value string) error {
	ok, err := b.client.SetNX(ctx, name, value, bareTTL).Result()
	if err == nil && !ok {
		err = errTaken
	}
	return err
}

func (b *bareGoRedis) Do(ctx context.Context, name string, section func()) error {
	value := nextValue()
	if err := b.take(ctx, name, value); err != nil {
		return err
	}
	if section != nil {
		section()
	}
	removed, err := b.remove.Run(ctx, b.client, []string{name}, value).Int64()
	if err == nil && removed != 1 {
		err = errGone
	}
	return err
}

func (b *bareGoRedis) Hold(ctx context.Context, name string) error {
	return b.take(ctx, name, nextValue())
}

// BareRueidis is the bare pair through rueidis.
var BareRueidis = &Candidate{
	Name: "bare-rueidis", Server: "redis", Settings: bareSettings, Plain: []string{"set"},
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client, err := newRueidis(at.Addr, n)
		if err != nil {
			return nil, err
		}
		users := &shared{users: n, close: client.Close}
		lockers := make([]Locker, n)
		for i := range lockers {
			lockers[i] = &bareRueidis{users, client, rueidis.NewLuaScript(compareAndDelete)}
		}
		return lockers, nil
	},
}

type bareRueidis struct {
	*shared
	client rueidis.Client
	remove *rueidis.Lua
}

func (b *bareRueidis) take(ctx context.Context, name, value string) error {
	err := b.client.Do(ctx, b.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(bareTTL.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return errTaken
	}
	return err
}

func (b *bareRueidis) give(ctx context.Context, name, value string) error {
	removed, err := b.remove.Exec(ctx, b.client, []string{name}, []string{value}).AsInt64()
	if err == nil && removed != 1 {
		err = errGone
	}
	return err
}

// Do implements Locker.
func (b *bareRueidis) Do(ctx context.Context, name string, section func()) error {
	value := nextValue()
	if err := b.take(ctx, name, value); err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return b.give(ctx, name, value)
}

// Hold implements Locker.
func (b *bareRueidis) Hold(ctx context.Context, name string) error {
	return b.take(ctx, name, nextValue())
}
