// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/store/redisstore/internal/adapt"
	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
	"github.com/redis/rueidis"
)

// Listen implements wire.Client. It uses a dedicated connection and not Client.Receive,
// which shares a connection with other calls, subscribes again without being asked, and
// leaves the subscription behind when it returns.
func (a *adapter) Listen(ctx context.Context, channel string, ready func(), message func(string)) {
	go func() {
		for ctx.Err() == nil {
			a.listen(ctx, channel, ready, message)
			adapt.Pause(ctx)
		}
	}()
}

// listen subscribes once and returns when the connection breaks, the server ends
// the subscription (a slot that moves to another node), or ctx ends.
func (a *adapter) listen(ctx context.Context, channel string, ready func(), message func(string)) {
	d, err := a.forSubscription(ctx)
	if err != nil {
		return // ctx has ended
	}
	conn := d.conn
	// Close, not release: what comes back to the pool must not be subscribed.
	defer d.release()
	defer conn.Close()
	ended, end := context.WithCancel(ctx)
	defer end()
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { message(m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if strings.HasSuffix(s.Kind, "unsubscribe") {
				end()
			} else {
				ready()
			}
		},
	})
	cmd := conn.B().Subscribe().Channel(channel).Build()
	if a.cluster {
		cmd = conn.B().Ssubscribe().Channel(channel).Build()
	}
	if err := conn.Do(ended, cmd).Error(); err != nil {
		return
	}
	select {
	case <-broken:
	case <-ended.Done():
	}
}

// Prove implements wire.Client. A dedicated client is bound to one connection from
// its first command on, which on a cluster must name the key.
func (a *adapter) Prove(ctx context.Context, key, runID string, scripts []*wire.Script) error {
	d, err := dedicateWithin(ctx, a.client)
	if err != nil {
		return err
	}
	defer d.release()
	conn := d.conn
	if a.cluster {
		if err := conn.Do(ctx, conn.B().Hget().Key(key).Field("m").Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}
	info, err := conn.Do(ctx, conn.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return err
	}
	if err := wire.SameRun(info, runID); err != nil {
		return err
	}
	known, err := conn.Do(ctx, conn.B().ScriptExists().Sha1(wire.SHAs(scripts)...).Build()).AsIntSlice()
	if err == nil && !slices.Contains(known, 0) {
		return nil
	}
	for _, s := range scripts {
		if err := conn.Do(ctx, conn.B().ScriptLoad().Script(s.Text).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}
