// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"sync"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// linger is how long a subscription stays after the last claim that waited. Where a lock is
// contended the next one comes at once, and would subscribe again before each wait.
const linger = 5 * time.Second

// ears are the channels that this process listens to, while a claim waits for their lock.
type ears struct {
	client rediscmd.Client
	// plain is set if channels are never sharded.
	plain bool

	mu       sync.Mutex
	channels map[string]*ear
}

// ear is the subscription to one channel.
type ear struct {
	channel string
	stop    context.CancelFunc
	idle    *time.Timer // runs while no claim waits
	ready   bool
	// waiting are the claims that wait, with the message that is about their lock, "" for every one.
	waiting map[chan struct{}]string
}

// join listens to a channel until leave is called. A hint comes once the subscription is
// confirmed, after each gap and for each message with the text, or whatever its text if that is
// empty. Hints that no claim took are one hint.
func (e *ears) join(channel, text string) (hints <-chan struct{}, leave func()) {
	own := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.channels[channel]
	if one == nil {
		one = e.listenLocked(channel)
	}
	if one.idle != nil {
		one.idle.Stop()
		one.idle = nil
	}
	one.waiting[own] = text
	if one.ready {
		own <- struct{}{}
	}
	return own, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(one.waiting, own)
		if len(one.waiting) == 0 {
			one.idle = time.AfterFunc(linger, func() { e.drop(one) })
		}
	}
}

// drop ends a subscription, unless a claim waits again.
func (e *ears) drop(one *ear) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(one.waiting) == 0 && e.channels[one.channel] == one {
		one.stop()
		delete(e.channels, one.channel)
	}
}

// close ends all subscriptions.
func (e *ears) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, one := range e.channels {
		one.stop()
		delete(e.channels, channel)
	}
}

// listenLocked subscribes. On a cluster a Redisson publishes to the sharded channel or to the
// plain one, by its version. e.mu must be held.
func (e *ears) listenLocked(channel string) *ear {
	ctx, stop := context.WithCancel(context.Background())
	one := &ear{channel: channel, stop: stop, waiting: map[chan struct{}]string{}}
	if e.channels == nil {
		e.channels = map[string]*ear{}
	}
	e.channels[channel] = one
	ready := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		one.ready = true
		one.hintLocked("")
	}
	message := func(text string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		one.hintLocked(text)
	}
	e.client.Listen(ctx, rediscmd.Channel{Name: channel}, ready, message)
	if e.client.Sharded() && !e.plain {
		e.client.Listen(ctx, rediscmd.Channel{Name: channel, Sharded: true}, ready, message)
	}
	return one
}

// hintLocked wakes the claims that a message is about, all of them for an empty one. The mutex of the
// ears must be held.
func (o *ear) hintLocked(text string) {
	for own, wanted := range o.waiting {
		if wanted != "" && text != "" && text != wanted {
			continue
		}
		select {
		case own <- struct{}{}:
		default:
		}
	}
}
