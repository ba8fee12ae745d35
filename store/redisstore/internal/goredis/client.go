// SPDX-License-Identifier: Apache-2.0

// Package goredis is the stores' view of a go-redis client, and makes one for a URL.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/go-redis/v9"
)

// Client is a go-redis client as the stores need it.
type Client struct {
	client  redis.UniversalClient
	cluster bool
	master  string // the name by which sentinels know the server; empty if unknown
	timed   bool   // the client ends every wait at the deadline of its context

	texts     rediscmd.Texts
	listeners rediscmd.Listeners
}

// New returns the view of a client. master is the name by which sentinels know the server, if
// it is known.
func New(client redis.UniversalClient, master string) *Client {
	_, cluster := client.(*redis.ClusterClient)
	g := &Client{client: client, cluster: cluster, master: master}
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		g.timed = timed(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	case *redis.ClusterClient:
		o := c.Options()
		g.timed = timed(o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout)
	}
	return g
}

// Fit returns an error for a client that cannot keep locks. store begins its text.
func Fit(store string, client redis.UniversalClient) error {
	switch client.(type) {
	case nil:
		return errors.New(store + ": New needs a client, for example redis.NewClient(&redis.Options{Addr: addr})")
	case *redis.Ring:
		return errors.New(store + ": a redis.Ring moves names to other servers when one is down, which makes two holders; use one client per server, or a cluster")
	}
	return nil
}

// timed reports whether a client with such options ends every wait at a deadline: a negative
// timeout sets none.
func timed(enabled bool, read, write time.Duration) bool { return enabled && read >= 0 && write >= 0 }

// within runs fn and returns when ctx ends even if fn does not. go-redis ends a wait at the
// deadline of its context if ContextTimeoutEnabled is set, and never on a cancellation. So a
// call that can be canceled needs a separate goroutine, which costs as much as the rest of
// the client's work for it.
func within[T any](ctx context.Context, g *Client, fn func() (T, error)) (T, error) {
	if err := rediscmd.Ended(ctx); err != nil {
		var zero T
		return zero, err
	}
	if _, ok := ctx.(interface{ EndsAtDeadline() }); ok && g.timed { // the core marks callers that cannot cancel
		return fn()
	}
	return rediscmd.Within(ctx, fn)
}

var _ rediscmd.Client = (*Client)(nil)

// Sharded implements rediscmd.Client.
func (g *Client) Sharded() bool { return g.cluster }

// once is a command that go-redis must not send again by itself. A repetition
// hides what became of the first: if that was done and its reply lost, the error
// of the second (LOADING, no connection) looks as if nothing had been done.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// Eval implements rediscmd.Client.
func (g *Client) Eval(ctx context.Context, s *rediscmd.Script, keys, args []string) ([]any, error) {
	return within(ctx, g, func() ([]any, error) {
		reply, err := g.eval(ctx, "evalsha", s.SHA, keys, args)
		if rediscmd.MissingScript(err) && s.Text == "" {
			return nil, rediscmd.ErrNoScript
		}
		if rediscmd.MissingScript(err) {
			reply, err = g.texts.Send(ctx, s.SHA,
				func() ([]any, error) { return g.eval(ctx, "evalsha", s.SHA, keys, args) },
				func() ([]any, error) { return g.eval(ctx, "eval", s.Text, keys, args) })
		}
		return reply, g.judge(ctx, err)
	})
}

func (g *Client) eval(ctx context.Context, command, script string, keys, args []string) ([]any, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, command, script, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	for _, a := range args {
		words = append(words, a)
	}
	cmd := once{redis.NewCmd(ctx, words...)}
	cmd.SetFirstKeyPos(3)
	_ = g.client.Process(ctx, cmd) // the command keeps the error
	v, err := cmd.Result()
	if l, ok := v.([]any); ok || err != nil {
		return l, err
	}
	return []any{v}, nil // a list of one
}

// Send implements rediscmd.Client. go-redis does not repeat commands of which one forbids
// it, unless a node of a cluster answered that it did nothing.
func (g *Client) Send(ctx context.Context, c *rediscmd.Commands) error {
	_, err := within(ctx, g, func() (struct{}, error) { return struct{}{}, g.judge(ctx, g.send(ctx, c)) })
	return err
}

func (g *Client) send(ctx context.Context, c *rediscmd.Commands) error {
	cmds := make([]redis.Cmder, c.Len())
	for i := range cmds {
		command := c.Command(i)
		cmd := once{redis.NewCmd(ctx, words(command)...)}
		if rediscmd.Keyed(command) {
			cmd.SetFirstKeyPos(1)
		}
		cmds[i] = cmd
	}
	pipe := g.client.Pipeline()
	if c.Transaction {
		pipe = g.client.TxPipeline()
	}
	_ = pipe.BatchProcess(ctx, cmds...) // sends nothing yet
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds {
		v, err := cmd.(once).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		note(c, v)
	}
	return nil
}

// note notes a value, or those of a list.
func note(c *rediscmd.Commands, v any) {
	switch v := v.(type) {
	case string:
		c.Replied(rediscmd.Reply{Text: v})
	case int64:
		c.Replied(rediscmd.Reply{Number: v})
	case []any:
		for _, part := range v {
			note(c, part)
		}
	default:
		c.Replied(rediscmd.Reply{})
	}
}

// Prove implements rediscmd.Client. A Conn of go-redis keeps one connection and never
// replaces it by another, unless the server asks it to (maintenance notifications). That is
// turned off first; a server that answers with an error never asks.
func (g *Client) Prove(ctx context.Context, key, runID string, scripts []*rediscmd.Script) error {
	node, err := g.holder(ctx, key)
	if err != nil {
		return err
	}
	conn := node.Conn()
	defer conn.Close()
	var answer redis.Error
	if err := conn.ClientMaintNotifications(ctx, false, "").Err(); err != nil && !errors.As(err, &answer) {
		return err
	}
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if err := rediscmd.SameRun(info, runID); err != nil {
		return err
	}
	if known, err := conn.ScriptExists(ctx, rediscmd.SHAs(scripts)...).Result(); err == nil && !slices.Contains(known, false) {
		return nil
	}
	for _, s := range scripts {
		if err := conn.ScriptLoad(ctx, s.Text).Err(); err != nil {
			return err
		}
	}
	return nil
}

// holder returns a client of the one server that has a key.
func (g *Client) holder(ctx context.Context, key string) (*redis.Client, error) {
	switch c := g.client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, errors.ErrUnsupported
}

// Listen implements rediscmd.Client. All channels share a connection, but for those that are sharded: each of
// these is on the node of its slot, and has a connection.
func (g *Client) Listen(ctx context.Context, channel rediscmd.Channel, ready func(), message func(string)) {
	if !channel.Sharded {
		g.listeners.Listen(ctx, channel.Name, ready, message, g.listen)
		return
	}
	alone := &rediscmd.Listeners{}
	alone.Listen(ctx, channel.Name, ready, message, func(ctx context.Context) {
		node, err := g.masterOf(ctx, channel.Name)
		if err != nil {
			g.reload(ctx)
			return
		}
		sub := node.SSubscribe(ctx)
		err = g.receive(ctx, sub, alone, &subscriber{ctx, sub, sub.SSubscribe, sub.SUnsubscribe}, true)
		if err != nil && strings.Contains(err.Error(), "unknown command") {
			pauseOld(ctx)
		}
	})
}

// pauseOld waits before a server is asked again that has no sharded channels, as those before 7.0:
// it may have been replaced. Messages come over a channel that is not sharded until then.
func pauseOld(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
}

// masterOf returns the node that is the master of a channel (rediscmd.MasterKey).
func (g *Client) masterOf(ctx context.Context, channel string) (*redis.Client, error) {
	key, field := rediscmd.MasterKey(channel)
	node, err := g.client.(*redis.ClusterClient).MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := node.HGet(ctx, key, field).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	return node, nil
}

func (g *Client) listen(ctx context.Context) {
	sub := g.client.Subscribe(ctx)
	_ = g.receive(ctx, sub, &g.listeners, &subscriber{ctx, sub, sub.Subscribe, sub.Unsubscribe}, false)
}

// subscriber implements rediscmd.Subscriber.
type subscriber struct {
	ctx         context.Context
	sub         *redis.PubSub
	subscribe   func(ctx context.Context, channels ...string) error
	unsubscribe func(ctx context.Context, channels ...string) error
}

func (s *subscriber) Subscribe(channels ...string) error { return s.subscribe(s.ctx, channels...) }

func (s *subscriber) Unsubscribe(channel string) error { return s.unsubscribe(s.ctx, channel) }

func (s *subscriber) Close() { _ = s.sub.Close() }

// receive uses a subscription until it breaks. go-redis subscribes again by itself after its
// connection broke, and says so. It does not when a slot moves to another node of
// a cluster: the server then ends the subscription, and the caller begins a new one. With once set the
// caller does so after a broken connection, too: the node may have become a replica.
// It returns the error that ended it, if there is one.
func (g *Client) receive(ctx context.Context, sub *redis.PubSub, l *rediscmd.Listeners, s rediscmd.Subscriber, once bool) error {
	end := sync.OnceFunc(s.Close)
	defer end()
	defer context.AfterFunc(ctx, end)()
	defer l.Open(ctx, s)()
	quiet, begun := 0, false
	for {
		m, err := sub.ReceiveTimeout(ctx, 3*time.Second)
		var wait net.Error
		if errors.As(err, &wait) && wait.Timeout() && quiet < 2 {
			quiet++ // the answer to the ping, or the connection is dead
			err = sub.Ping(ctx)
			m = nil
		}
		if err != nil {
			// MOVED is one of these errors: go-redis would wait forever on the old node.
			g.reload(ctx)
			return err
		}
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
				if once && begun {
					g.reload(ctx)
					return nil
				}
				begun = true
				l.Ready(m.Channel)
			} else if l.Ended(m.Channel) {
				g.reload(ctx)
				return nil
			}
		case *redis.Message:
			l.Message(m.Channel, m.Payload)
		case *redis.Pong:
			quiet = 0
		}
	}
}

// reload makes a cluster client learn who serves what: it asks by itself only
// when a node that lives sends it elsewhere.
func (g *Client) reload(ctx context.Context) {
	if c, ok := g.client.(*redis.ClusterClient); ok {
		c.ReloadState(ctx)
	}
}

// judge returns what an error of a call means. A node that did not answer, or not for long,
// may have been replaced by another.
func (g *Client) judge(ctx context.Context, err error) error {
	err = Classify(ctx, err)
	if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknown) {
		g.reload(ctx)
	}
	return err
}

// Classify returns what an error of go-redis means for what was asked.
func Classify(ctx context.Context, err error) error {
	var answer redis.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("redisstore: the client was closed; keep it open until fencelock.Client.Close returned: %w", err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return rediscmd.Unavailable(err)
	case errors.As(err, &answer):
		return rediscmd.Answered(err)
	}
	return rediscmd.Failed(ctx, err)
}

// Nodes implements rediscmd.Client.
func (g *Client) Nodes(ctx context.Context) ([]rediscmd.Node, error) {
	switch c := g.client.(type) {
	case *redis.Client:
		n := nodeOf(c)
		if n.Addr == "FailoverClient" { // go-redis gives it no address
			n.Addr = "the master that Sentinel names"
			if g.master != "" {
				n.Addr = "master " + g.master
			}
		}
		return []rediscmd.Node{n}, nil
	case *redis.ClusterClient:
		var mu sync.Mutex
		var nodes []rediscmd.Node
		err := c.ForEachMaster(ctx, func(_ context.Context, n *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, nodeOf(n))
			return nil
		})
		return nodes, Classify(ctx, err)
	}
	// The caller's own kind of client: it cannot be asked for its connections.
	return []rediscmd.Node{{Addr: "the server", Ask: func(ctx context.Context, _ int, args ...string) ([]any, error) {
		reply, err := g.client.Do(ctx, words(args)...).Result()
		return []any{reply}, Classify(ctx, err)
	}}}, nil
}

func nodeOf(c *redis.Client) rediscmd.Node {
	return rediscmd.Node{Addr: c.Options().Addr, Ask: func(ctx context.Context, n int, args ...string) ([]any, error) {
		if size := c.Options().PoolSize; size > 0 {
			n = max(1, min(n, size/2)) // leaves connections for the caller's own calls
		}
		var replies []any
		for range n {
			conn := c.Conn() // held until the end, so that each is another one
			defer conn.Close()
			reply, err := conn.Do(ctx, words(args)...).Result()
			if err != nil {
				return nil, Classify(ctx, err)
			}
			replies = append(replies, reply)
		}
		return replies, nil
	}}
}

func words(args []string) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
	}
	return all
}
