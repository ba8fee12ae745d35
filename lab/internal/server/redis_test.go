// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/redis/go-redis/v9"
)

// TestCutPush: connections of clients that wait for messages end, those of sentinels
// stay.
func TestCutPush(t *testing.T) {
	s, err := StartRedis(fault.Wants{})
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	defer s.Stop()
	ctx := context.Background()
	await := func(name string) *redis.PubSub {
		c := redis.NewClient(&redis.Options{Addr: s.Addr, ClientName: name, DisableIdentity: true, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		sub := c.Subscribe(ctx, "ch")
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		return sub
	}
	client, sentinel := await("fencelock"), await("sentinel-0123abcd-pubsub")
	must.OK(t, s.Do(ctx, fault.CutPush))
	if got, err := client.ReceiveTimeout(ctx, time.Minute); err == nil {
		t.Errorf("the client got %v, want the end of its connection", got)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	defer c.Close()
	must.OK(t, c.Publish(ctx, "ch", "x").Err())
	if got, err := sentinel.ReceiveTimeout(ctx, time.Minute); err != nil {
		t.Errorf("the connection of the sentinel ended: %v, %v", got, err)
	}
}
