// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/internal/servers"
)

// wrongGuards are what people write, on a client and a key with the name of the
// lock.
var wrongGuards = []struct {
	name, caught string
	change       func(client *redis.Client, lock string, v *fencetest.Value)
}{
	{"no guard at all", "G2/delayed-writer", func(client *redis.Client, lock string, v *fencetest.Value) {
		v.Enter = v.Read
		v.Write = func(ctx context.Context, value string) error { return client.Set(ctx, lock, value, 0).Err() }
	}},
	{"check, then write", "G4/write-in-steps", func(client *redis.Client, lock string, v *fencetest.Value) {
		enter := v.Enter
		v.Write = func(ctx context.Context, value string) error {
			if _, err := enter(ctx); err != nil {
				return err
			}
			return client.Set(ctx, lock, value, 0).Err()
		}
	}},
	{"read before the fence", "G3/entry-in-steps", func(_ *redis.Client, _ string, v *fencetest.Value) {
		enter, read := v.Enter, v.Read
		v.Enter = func(ctx context.Context) (string, error) {
			value, err := read(ctx)
			if err != nil {
				return "", err
			}
			_, err = enter(ctx)
			return value, err
		}
	}},
	{"tokens as Lua numbers", "G6/numbers", func(client *redis.Client, lock string, v *fencetest.Value) {
		byScript(client, lock, v, "tonumber(kept) > tonumber(mine)")
	}},
	{"> for >=", "G1/retry", func(client *redis.Client, lock string, v *fencetest.Value) {
		byScript(client, lock, v, "#kept > #mine or #kept == #mine and kept >= mine")
	}},
	{"sent again by the client", "G7/lost-reply-overtaken", func(client *redis.Client, lock string, v *fencetest.Value) {
		const right = "#kept > #mine or #kept == #mine and kept > mine"
		byScript(client, lock, v, right)
		v.LoseReply = func(ctx context.Context, value string) error {
			var d fencetest.Dialer
			lossy := redis.NewClient(&redis.Options{Addr: client.Options().Addr, Dialer: d.DialContext, PoolSize: 1})
			defer lossy.Close()
			w := *v
			byScript(lossy, lock, &w, right)
			if _, err := w.Enter(ctx); err != nil { // it is connected now
				return err
			}
			d.LoseNextReply(ctx)
			return w.Write(ctx, value)
		}
	}},
}

// byScript is a guard that refuses on another condition.
func byScript(client *redis.Client, lock string, v *fencetest.Value, refuse string) {
	script := redis.NewScript(`local mine, kept = ARGV[1], redis.call('GET', KEYS[2])
		if kept and (` + refuse + `) then return 0 end
		redis.call('SET', KEYS[2], mine)
		if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2]) end
		return 1`)
	v.Write = func(ctx context.Context, value string) error {
		m, err := fence.FromContext(ctx, lock)
		if err != nil {
			return err
		}
		ok, err := script.Run(ctx, client, []string{lock, "{" + lock + "}:number"}, m.Token.String(), value).Bool()
		if err == nil && !ok {
			return &fence.StaleError{Given: m}
		}
		return err
	}
	v.Enter = func(ctx context.Context) (string, error) {
		if err := v.Write(ctx, ""); err != nil {
			return "", err
		}
		return v.Read(ctx)
	}
}

func TestWrongGuardsAreRefused(t *testing.T) {
	server := start(t, servers.Redis)
	client := connect(t, server.Addr)
	for _, w := range wrongGuards {
		t.Run(w.name, func(t *testing.T) {
			fencetest.Refuses(t, &fencetest.Harness{Name: w.name + " on Redis",
				New: func(_ context.Context, lock string) (*fencetest.Value, error) {
					v, err := value(client, client, at(server.Addr), lock)
					if err == nil {
						w.change(client, lock, v)
					}
					return v, err
				}}, w.caught)
		})
	}
}
