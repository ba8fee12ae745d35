// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Listeners are the channels that a process listens to on one server, over one connection:
// a process has a session, and so a channel, for each bucket in which it waits.
type Listeners struct {
	mu       sync.Mutex
	channels map[string][]*listener // a session that is resumed has the channel of before
	conn     *connection            // that is open, nil if none is
	stop     context.CancelFunc
}

type listener struct {
	ready   func()
	message func(string)
}

// connection is one of the connections. Its mutex keeps the order of what is sent: a channel that
// was dropped and is listened to again must stay subscribed.
type connection struct {
	mu sync.Mutex
	Subscriber
}

// Subscriber is a connection with subscriptions.
type Subscriber interface {
	Subscribe(channels ...string) error
	Unsubscribe(channel string) error
	// Close ends the connection; the next one subscribes to all channels.
	Close()
}

// MasterKey is the key of the bucket of a channel, and field a field of it, to read before a
// connection of a cluster subscribes. A replica lets clients subscribe, but a master that was just
// promoted does not know for seconds that the one before is its replica now, and sends it
// nothing. A replica answers MOVED to the read of a key. The key has the slot of the channel,
// whatever braces are in its name.
func MasterKey(channel string) (key, field string) {
	before, rest, _ := strings.Cut(channel, "{")
	tag, _, tagged := strings.Cut(rest, "}")
	if !tagged || tag == "" {
		return channel, "m"
	}
	return before + "{" + tag + "}", "m"
}

// Listen listens to a channel until ctx ends: see Client. run uses one connection until it
// breaks or its context ends, and begins with Open.
func (l *Listeners) Listen(ctx context.Context, channel string, ready func(), message func(string), run func(context.Context)) {
	one := &listener{ready, message}
	l.mu.Lock()
	if l.channels == nil {
		l.channels = map[string][]*listener{}
	}
	// Copied: what of returned is read without the mutex.
	l.channels[channel] = append(slices.Clone(l.channels[channel]), one)
	conn := l.conn
	if l.stop == nil {
		var running context.Context
		running, l.stop = context.WithCancel(context.Background())
		go func() {
			for running.Err() == nil {
				run(running)
				Pause(running)
			}
		}()
	}
	l.mu.Unlock()
	if conn != nil {
		go conn.subscribe(channel)
	}
	context.AfterFunc(ctx, func() { l.drop(channel, one) })
}

func (c *connection) subscribe(channels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Subscribe(channels...) != nil {
		c.Close()
	}
}

// unsubscribe ends a subscription, unless the channel is listened to again.
func (l *Listeners) unsubscribe(c *connection, channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.of(channel)) == 0 && c.Unsubscribe(channel) != nil {
		c.Close()
	}
}

// drop ends listening to a channel, and with the last one the connection.
func (l *Listeners) drop(channel string, one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(l.channels[channel]), func(o *listener) bool { return o == one })
	if l.channels[channel] = rest; len(rest) > 0 {
		return
	}
	delete(l.channels, channel)
	if len(l.channels) == 0 {
		l.stop()
		l.stop, l.conn = nil, nil
		return
	}
	if l.conn != nil {
		go l.unsubscribe(l.conn, channel)
	}
}

// Open subscribes to all channels on a new connection. Call closed when it has broken.
func (l *Listeners) Open(ctx context.Context, s Subscriber) (closed func()) {
	conn := &connection{Subscriber: s}
	l.mu.Lock()
	if ctx.Err() != nil { // they were all dropped
		l.mu.Unlock()
		return func() {}
	}
	l.conn = conn
	all := slices.Collect(maps.Keys(l.channels))
	l.mu.Unlock()
	conn.subscribe(all...)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conn == conn {
			l.conn = nil
		}
	}
}

func (l *Listeners) of(channel string) []*listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.channels[channel]
}

// Ready notes that a subscription was confirmed.
func (l *Listeners) Ready(channel string) {
	for _, one := range l.of(channel) {
		one.ready()
	}
}

// Message passes a message on.
func (l *Listeners) Message(channel, text string) {
	for _, one := range l.of(channel) {
		one.message(text)
	}
}

// Ended reports whether a channel is left without a subscription that the server has ended.
func (l *Listeners) Ended(channel string) bool { return len(l.of(channel)) > 0 }

// Pause waits a moment before a subscription is tried again, for as long as ctx
// lets it; not equally long everywhere, for a server that comes back.
func Pause(ctx context.Context) {
	t := time.NewTimer(25*time.Millisecond + rand.N(50*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
