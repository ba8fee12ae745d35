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
		return sharing(n, func() { _ = client.Close() }, func(users *shared) Locker {
			return bare{users, &bareGoRedis{client, redis.NewScript(compareAndDelete)}}
		}), nil
	},
}

// BareRueidis is the bare pair through rueidis.
var BareRueidis = &Candidate{
	Name: "bare-rueidis", Server: "redis", Settings: bareSettings, Plain: []string{"set"},
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client, err := newRueidis(at.Addr, n)
		if err != nil {
			return nil, err
		}
		return sharing(n, client.Close, func(users *shared) Locker { return bare{users, newBareRueidis(client)} }), nil
	},
}

// pair is the two commands of the bare pair.
type pair interface {
	take(ctx context.Context, name, value string) error
	give(ctx context.Context, name, value string) error
}

type bare struct {
	*shared
	pair
}

// Lock implements Locker.
func (b bare) Lock(ctx context.Context, name string) (Held, error) {
	held := &bareHeld{b.pair, name, nextValue()}
	return held, b.take(ctx, name, held.value)
}

type bareHeld struct {
	pair
	name, value string
}

// Unlock implements Held.
func (h *bareHeld) Unlock(ctx context.Context) error { return h.give(ctx, h.name, h.value) }

type bareGoRedis struct {
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

func (b *bareGoRedis) give(ctx context.Context, name, value string) error {
	return removedOne(b.remove.Run(ctx, b.client, []string{name}, value).Int64())
}

type bareRueidis struct {
	client rueidis.Client
	remove *rueidis.Lua
}

func newBareRueidis(client rueidis.Client) *bareRueidis {
	return &bareRueidis{client, rueidis.NewLuaScript(compareAndDelete)}
}

func (b *bareRueidis) take(ctx context.Context, name, value string) error {
	err := b.client.Do(ctx, b.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(bareTTL.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return errTaken
	}
	return err
}

func (b *bareRueidis) give(ctx context.Context, name, value string) error {
	return removedOne(b.remove.Exec(ctx, b.client, []string{name}, []string{value}).AsInt64())
}

func removedOne(removed int64, err error) error {
	if err == nil && removed != 1 {
		err = errGone
	}
	return err
}
