// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"

	"github.com/redis/rueidis"
)

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
