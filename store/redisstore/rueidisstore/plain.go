// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock/store/redisstore/internal/adapt"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/redis/rueidis"
)

var _ native.Client = (*adapter)(nil)

// Send implements native.Commander.
func (a *adapter) Send(ctx context.Context, c *native.Commands) error {
	_, err := adapt.BoundedWithin(ctx, &a.abandoned, func() (struct{}, error) {
		return struct{}{}, classify(ctx, send(a.sending(ctx), a.client, c))
	})
	return err
}

// Send implements native.Commander.
func (l *ownConn) Send(ctx context.Context, c *native.Commands) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.readyLocked() {
		return l.a.Send(ctx, c)
	}
	if err := l.beginLocked(ctx); err != nil {
		return err
	}
	return l.endLocked(ctx, send(&l.ctx, l.conn, c))
}

// built are commands to send, to be used again.
var built = sync.Pool{New: func() any { return new([]rueidis.Completed) }}

// send sends commands, once.
func send(ctx context.Context, client rueidis.CoreClient, c *native.Commands) error {
	p := built.Get().(*[]rueidis.Completed)
	all := *p
	for i := range c.Len() {
		if c.Transaction && i == c.Outside {
			all = append(all, client.B().Multi().Build())
		}
		all = append(all, build(client.B(), c.Command(i)))
	}
	if c.Transaction {
		all = append(all, client.B().Exec().Build())
	}
	results := client.DoMulti(ctx, all...)
	if sent(results) {
		clear(all)
		*p = all[:0]
		built.Put(p)
	}
	outside, last := len(results), len(results)-1
	if c.Transaction {
		outside = c.Outside
	}
	for i := range results {
		var err error
		switch {
		case i < outside || i == last:
			err = note(c, &results[i])
		default: // MULTI, or a command that was queued
			err = results[i].Error()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sent reports whether all commands were answered. Otherwise rueidis may still have them in its queue, and write them: it
// panics if they are gone by then.
func sent(results []rueidis.RedisResult) bool {
	for i := range results {
		if results[i].NonRedisError() != nil {
			return false
		}
	}
	return true
}

// build makes a command.
func build(b rueidis.Builder, words []string) rueidis.Completed {
	if !native.Keyed(words) {
		return b.Arbitrary(words...).Build()
	}
	return b.Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
}

// note notes a reply.
func note(c *native.Commands, result *rueidis.RedisResult) error {
	m, err := result.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return noteMessage(c, &m)
}

// noteMessage notes a value, or those of a list.
func noteMessage(c *native.Commands, m *rueidis.RedisMessage) error {
	switch {
	case m.IsNil():
		c.Replied(native.Reply{})
	case m.IsInt64():
		n, err := m.ToInt64()
		c.Replied(native.Reply{Number: n})
		return err
	case m.IsArray():
		values, err := m.ToArray()
		for i := range values {
			if err := noteMessage(c, &values[i]); err != nil {
				return err
			}
		}
		return err
	default:
		text, err := m.ToString()
		c.Replied(native.Reply{Text: text})
		return err
	}
	return nil
}
