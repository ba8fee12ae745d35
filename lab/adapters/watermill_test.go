// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/fencelock/fencelock"
)

// handleOnce is a middleware of Watermill: a message that is delivered again, to whichever
// consumer, is not handled again. One that is handled elsewhere is delivered later, because
// it may fail there.
func handleOnce(once *fencelock.Once) message.HandlerMiddleware {
	return func(handle message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) (produced []*message.Message, err error) {
			result, err := once.Do(msg.Context(), msg.UUID, func(ctx context.Context, _ *fencelock.Lease) error {
				msg.SetContext(ctx) // it ends when the lock is lost
				var err error
				produced, err = handle(msg)
				return err
			})
			if err == nil && !result.Done {
				return nil, errors.New("the message is handled by another consumer; deliver it again")
			}
			return produced, err
		}
	}
}

// TestWatermillHandlesOnce: two consumers get the same messages, some of which fail at first.
// Each message succeeds once.
func TestWatermillHandlesOnce(t *testing.T) {
	const messages = 10
	var mu sync.Mutex
	tried, done := map[string]int{}, map[string]int{}
	handle := func(msg *message.Message) ([]*message.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		if tried[msg.UUID]++; tried[msg.UUID] == 1 && msg.UUID[0] == 'f' {
			return nil, errors.New("the first try fails")
		}
		done[msg.UUID]++
		return nil, nil
	}
	clients := locksOn(t, newSite(t))
	var queues []*gochannel.GoChannel
	for range 2 {
		queue := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		router.AddMiddleware(handleOnce(clients(t).Once("orders", time.Hour)))
		router.AddHandler("orders", "orders", queue, "done", queue, handle)
		go func() { _ = router.Run(context.Background()) }()
		<-router.Running()
		t.Cleanup(func() { router.Close() })
		queues = append(queues, queue)
	}
	var all sync.WaitGroup
	for i := range messages {
		id := fmt.Sprintf("%s%d", []string{"fails", "works"}[i%2], i)
		for _, queue := range queues {
			all.Go(func() {
				for range 2 {
					if err := queue.Publish("orders", message.NewMessage(id, nil)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	if len(done) != messages {
		t.Errorf("handled: %v, want %d messages", done, messages)
	}
	for id, n := range done {
		if n > 1 {
			twice++
			t.Errorf("%s was handled %d times", id, n)
		}
	}
	proved(t, "watermill", twice)
}
