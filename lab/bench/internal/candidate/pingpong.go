// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// PingPong passes a message around a ring of processes with PUBLISH: what the
// server needs at the least to wake another process. It locks nothing.
var PingPong = &Candidate{
	Name: "ping-pong", Server: "redis", Settings: "PUBLISH to the next process, which is subscribed; rueidis",
	Plain: []string{"publish", "subscribe"}, Waits: true,
	Open: func(ctx context.Context, at Place, n int) ([]Locker, error) {
		if n != 1 {
			return nil, errors.New("ping-pong is between processes; a process has one")
		}
		return openPingPong(ctx, at)
	},
}

type pingPong struct {
	client  rueidis.Client
	cancel  context.CancelFunc
	at      Place
	heard   chan string
	begun   string // the name that was begun last
	mailbox string // of the next process
}

func mailbox(process int) string { return "ping-pong:" + strconv.Itoa(process) }

func openPingPong(ctx context.Context, at Place) ([]Locker, error) {
	client, err := newRueidis(at.Addr, 1)
	if err != nil {
		return nil, err
	}
	// Room for messages of an earlier run that no waiter received.
	p := &pingPong{client: client, at: at, heard: make(chan string, 64), mailbox: mailbox((at.Process + 1) % at.Processes)}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	// A dedicated connection, as a process that waits for locks has.
	conn, _ := client.Dedicate()
	ready := make(chan struct{}, 1)
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { p.heard <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { ready <- struct{}{} },
	})
	if err := conn.Do(background, conn.B().Subscribe().Channel(mailbox(at.Process)).Build()).Error(); err != nil {
		return nil, err
	}
	select {
	case <-ready:
	case err := <-broken:
		return nil, fmt.Errorf("subscribe: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return []Locker{p}, nil
}

// Lock waits for the message, and Unlock passes it on. The first process of a run begins.
// name is the run: messages of an earlier one are dropped.
func (p *pingPong) Lock(ctx context.Context, name string) (Held, error) {
	if p.at.Process == 0 && p.begun != name {
		p.begun = name
		return &message{p, name}, nil
	}
	return &message{p, name}, p.wait(ctx, name)
}

type message struct {
	*pingPong
	name string
}

// Unlock implements Held.
func (m *message) Unlock(ctx context.Context) error {
	return m.client.Do(context.WithoutCancel(ctx), m.client.B().Publish().Channel(m.mailbox).Message(m.name).Build()).Error()
}

func (p *pingPong) wait(ctx context.Context, name string) error {
	for {
		select {
		case heard := <-p.heard:
			if heard == name {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements Locker.
func (p *pingPong) Close() { p.cancel(); p.client.Close() }
