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

// subscriptions are the channels that this process listens to, while a claim waits for their lock.
type subscriptions struct {
	client rediscmd.Client
	// plain is set if channels are never sharded.
	plain bool

	mu       sync.Mutex
	channels map[string]*subscription
}

// subscription is the subscription to one channel.
type subscription struct {
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
func (ss *subscriptions) join(channel, text string) (hints <-chan struct{}, leave func()) {
	own := make(chan struct{}, 1)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	one := ss.channels[channel]
	if one == nil {
		one = ss.listenLocked(channel)
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
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(one.waiting, own)
		if len(one.waiting) == 0 {
			one.idle = time.AfterFunc(linger, func() { ss.drop(one) })
		}
	}
}

// drop ends a subscription, unless a claim waits again.
func (ss *subscriptions) drop(one *subscription) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(one.waiting) == 0 && ss.channels[one.channel] == one {
		one.stop()
		delete(ss.channels, one.channel)
	}
}

// close ends all subscriptions.
func (ss *subscriptions) close() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for channel, one := range ss.channels {
		one.stop()
		delete(ss.channels, channel)
	}
}

// listenLocked subscribes. On a cluster a Redisson publishes to the sharded channel or to the
// plain one, by its version. e.mu must be held.
func (ss *subscriptions) listenLocked(channel string) *subscription {
	ctx, stop := context.WithCancel(context.Background())
	one := &subscription{channel: channel, stop: stop, waiting: map[chan struct{}]string{}}
	if ss.channels == nil {
		ss.channels = map[string]*subscription{}
	}
	ss.channels[channel] = one
	ready := func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		one.ready = true
		one.hintLocked("")
	}
	message := func(text string) {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		one.hintLocked(text)
	}
	ss.client.Listen(ctx, rediscmd.Channel{Name: channel}, ready, message)
	if ss.client.Sharded() && !ss.plain {
		ss.client.Listen(ctx, rediscmd.Channel{Name: channel, Sharded: true}, ready, message)
	}
	return one
}

// hintLocked wakes the claims that a message is about, all of them for an empty one. The mutex of the
// subscriptions must be held.
func (sub *subscription) hintLocked(text string) {
	for own, wanted := range sub.waiting {
		if wanted != "" && text != "" && text != wanted {
			continue
		}
		select {
		case own <- struct{}{}:
		default:
		}
	}
}
