// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"

	"github.com/redis/go-redis/v9"
)

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
