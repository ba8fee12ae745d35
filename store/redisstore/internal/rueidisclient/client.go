// SPDX-License-Identifier: Apache-2.0

// Package rueidisclient is the stores' view of a rueidis client.
package rueidisclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/rueidis"
)

// Client is a rueidis client as the stores need it.
//
// rueidis sends a script once: it repeats only what is read-only, or what a node
// of a cluster answered with MOVED or ASK, and did not do. Were that not so, the
// error of a repetition would hide what became of the first.
type Client struct {
	client  rueidis.Client
	cluster bool
	// oneAddress is set if no sentinel and no node of a cluster tells the client where the master is.
	oneAddress bool

	lanes     [maxLanes]lane
	wanted    atomic.Int64 // subscriptions that have waited for a connection for long
	abandoned rediscmd.Abandoned
	texts     rediscmd.Texts
	listeners rediscmd.Listeners
}

var _ rediscmd.Client = (*Client)(nil)

// New returns the view of a client.
func New(client rueidis.Client) *Client {
	mode := client.Mode()
	return &Client{client: client, cluster: mode == rueidis.ClientModeCluster, oneAddress: mode == rueidis.ClientModeStandalone}
}

// Sharded implements rediscmd.Client.
func (a *Client) Sharded() bool { return a.cluster }

// Eval implements rediscmd.Client.
func (a *Client) Eval(ctx context.Context, s *rediscmd.Script, keys, args []string) ([]any, error) {
	return call(ctx, a, func(ctx context.Context, client rueidis.CoreClient) ([]any, error) {
		return a.eval(ctx, client, s, keys, args)
	})
}

// eval sends a script. It is carried out once at most.
func (a *Client) eval(ctx context.Context, client rueidis.CoreClient, s *rediscmd.Script, keys, args []string) ([]any, error) {
	b := client.B()
	bySHA := func() ([]any, error) {
		return list(client.Do(ctx, b.Evalsha().Sha1(s.SHA).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()))
	}
	reply, err := bySHA()
	if !rediscmd.MissingScript(err) {
		return reply, err
	}
	if s.Text == "" {
		return nil, rediscmd.ErrNoScript
	}
	return a.texts.Send(ctx, s.SHA, bySHA, func() ([]any, error) {
		return list(client.Do(ctx, b.Eval().Script(s.Text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()))
	})
}

// sending returns the context to send a script with. rueidis must not see the deadline:
// when it passes while a call has the connection to itself, rueidis closes the connection,
// and every call that came in the meantime fails with the deadline of another call. On a
// cluster rueidis must see the end of the context, because it follows MOVED until then.
// Elsewhere it must not see even that, because a call that can be canceled takes the slow
// path through the queue of rueidis.
func (a *Client) sending(ctx context.Context) context.Context {
	if a.cluster {
		return noDeadline{ctx}
	}
	return context.WithoutCancel(ctx)
}

// noDeadline is a context that ends when it should and does not say so before.
type noDeadline struct{ context.Context }

// Deadline implements context.Context.
func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// list reads a reply as a list of strings, numbers and lists; one value is a list of
// one.
func list(result rueidis.RedisResult) ([]any, error) {
	v, err := result.ToAny()
	if err != nil {
		return nil, err
	}
	if l, ok := v.([]any); ok {
		return l, nil
	}
	return []any{v}, nil
}

// Send implements rediscmd.Client.
func (a *Client) Send(ctx context.Context, c *rediscmd.Commands) error {
	_, err := call(ctx, a, func(ctx context.Context, client rueidis.CoreClient) (struct{}, error) {
		return struct{}{}, send(ctx, client, c)
	})
	return err
}

// built are commands to send, to be used again.
var built = sync.Pool{New: func() any { return new([]rueidis.Completed) }}

// send sends commands, once.
func send(ctx context.Context, client rueidis.CoreClient, c *rediscmd.Commands) error {
	p := built.Get().(*[]rueidis.Completed)
	all := *p
	if c.Transaction {
		all = append(all, client.B().Multi().Build())
	}
	for i := range c.Len() {
		all = append(all, build(client.B(), c.Command(i)))
	}
	if c.Transaction {
		all = append(all, client.B().Exec().Build())
	}
	results := client.DoMulti(ctx, all...)
	c.Again()
	if sent(results) {
		clear(all)
		*p = all[:0]
		built.Put(p)
	}
	for i := range results {
		var err error
		if c.Transaction && i < len(results)-1 {
			err = results[i].Error() // MULTI, or a command that was queued
		} else {
			err = note(c, &results[i])
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
	if !rediscmd.Keyed(words) {
		return b.Arbitrary(words...).Build()
	}
	return b.Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
}

// note notes a reply.
func note(c *rediscmd.Commands, result *rueidis.RedisResult) error {
	m, err := result.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return noteMessage(c, &m)
}

// noteMessage notes a value, or those of a list.
func noteMessage(c *rediscmd.Commands, m *rueidis.RedisMessage) error {
	switch {
	case m.IsNil():
		c.Replied(rediscmd.Reply{})
	case m.IsInt64():
		n, err := m.ToInt64()
		c.Replied(rediscmd.Reply{Number: n})
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
		c.Replied(rediscmd.Reply{Text: text})
		return err
	}
	return nil
}

// classify returns what an error of rueidis means for what was asked. ErrClosing is not
// special: it also ends calls that were in flight.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var answer *rueidis.RedisError
	if errors.As(err, &answer) {
		return rediscmd.Answered(err)
	}
	return rediscmd.Failed(ctx, err)
}
