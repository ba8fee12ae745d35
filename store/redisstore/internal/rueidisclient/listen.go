// SPDX-License-Identifier: Apache-2.0

package rueidisclient

import (
	"context"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/rueidis"
)

// Listen implements rediscmd.Client. All channels share a connection, but for those that are sharded: each of
// these is on the node of its slot, and has a connection.
//
// It is a dedicated connection and not that of Client.Receive, which shares it with other calls,
// subscribes again without being asked, and leaves the subscription behind when it returns.
func (a *Client) Listen(ctx context.Context, channel rediscmd.Channel, ready func(), message func(string)) {
	l := &a.listeners
	if channel.Sharded {
		l = &rediscmd.Listeners{}
	}
	l.Listen(ctx, channel.Name, ready, message, func(ctx context.Context) { a.listen(ctx, l, channel.Sharded) })
}

// listen uses one connection until it breaks, the server ends a subscription (a slot that moves
// to another node), or ctx ends.
func (a *Client) listen(ctx context.Context, l *rediscmd.Listeners, sharded bool) {
	d, err := a.forSubscription(ctx)
	if err != nil {
		return // ctx has ended
	}
	conn := d.conn
	defer d.discard() // what comes back to the pool must not be subscribed
	ended, end := context.WithCancel(ctx)
	defer end()
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { l.Message(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if !strings.HasSuffix(s.Kind, "unsubscribe") {
				l.Ready(s.Channel)
			} else if l.Ended(s.Channel) {
				end()
			}
		},
	})
	defer l.Open(ctx, &subscriber{ended, end, conn, sharded})()
	select {
	case <-broken:
	case <-ended.Done():
	}
}

// subscriber implements rediscmd.Subscriber.
type subscriber struct {
	ctx     context.Context
	end     context.CancelFunc
	conn    rueidis.DedicatedClient
	sharded bool
}

// Subscribe implements rediscmd.Subscriber.
func (s *subscriber) Subscribe(channels ...string) error {
	cmd := s.conn.B().Subscribe().Channel(channels...).Build()
	if s.sharded {
		if err := s.atMaster(channels[0]); err != nil {
			return err
		}
		cmd = s.conn.B().Ssubscribe().Channel(channels...).Build()
	}
	return s.conn.Do(s.ctx, cmd).Error()
}

// atMaster returns an error if the connection is not to the master of a channel (rediscmd.MasterKey).
func (s *subscriber) atMaster(channel string) error {
	key, field := rediscmd.MasterKey(channel)
	err := s.conn.Do(s.ctx, s.conn.B().Hget().Key(key).Field(field).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

// Unsubscribe implements rediscmd.Subscriber.
func (s *subscriber) Unsubscribe(channel string) error {
	cmd := s.conn.B().Unsubscribe().Channel(channel).Build()
	if s.sharded {
		cmd = s.conn.B().Sunsubscribe().Channel(channel).Build()
	}
	return s.conn.Do(s.ctx, cmd).Error()
}

// Close implements rediscmd.Subscriber.
func (s *subscriber) Close() { s.end() }

// Prove implements rediscmd.Client. A dedicated client is bound to one connection from
// its first command on, which on a cluster must name the key.
func (a *Client) Prove(ctx context.Context, key, runID string, scripts []*rediscmd.Script) error {
	d, err := dedicateWithin(ctx, a.client)
	if err != nil {
		return err
	}
	if err := a.prove(ctx, d.conn, key, runID, scripts); err != nil {
		d.discard() // it may lead to a server that was replaced, and the next proof needs another one
		return err
	}
	d.release()
	return nil
}

func (a *Client) prove(ctx context.Context, conn rueidis.DedicatedClient, key, runID string, scripts []*rediscmd.Script) error {
	if a.cluster {
		if err := conn.Do(ctx, conn.B().Hget().Key(key).Field("m").Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}
	info, err := conn.Do(ctx, conn.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return err
	}
	if err := rediscmd.SameRun(info, runID); err != nil {
		return err
	}
	known, err := conn.Do(ctx, conn.B().ScriptExists().Sha1(rediscmd.SHAs(scripts)...).Build()).AsIntSlice()
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
