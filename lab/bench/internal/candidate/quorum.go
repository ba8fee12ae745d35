// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	rueidispool "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"

	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore/rueidisstore"
)

// FencelockQuorum is fencelock on a quorum of Redis servers.
var FencelockQuorum = &Candidate{
	Name: "fencelock-quorum", Server: "quorum", Bare: "bare-quorum", Settings: "quorum.New over rueidisstore, defaults; no grace", Waits: true,
	Plain: []string{"subscribe"},
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		clients, closeAll, err := newRueidises(at.Addr, n)
		if err != nil {
			return nil, err
		}
		var nodes []quorum.Node
		for i, client := range clients {
			store, err := rueidisstore.New(client, nil)
			if err != nil {
				closeAll()
				return nil, err
			}
			nodes = append(nodes, quorum.Node{Name: fmt.Sprint("node", i), Store: store})
		}
		store, err := quorum.New(nodes, &quorum.Options{Alarm: func(quorum.Alarm) {}})
		if err != nil {
			closeAll()
			return nil, err
		}
		return openOurs(store, n, closeAll)
	},
}

// RedsyncQuorum is redsync on several servers as it comes.
var RedsyncQuorum = &Candidate{
	Name: "redsync-quorum", Server: "quorum", Bare: "bare-quorum", Settings: "Redlock over rueidis, defaults", Waits: true, Plain: []string{"set"},
	Open: openRedsyncQuorum(),
}

// RedsyncFailFast does not wait for servers that do not matter any more.
var RedsyncFailFast = &Candidate{
	Name: "redsync-quorum-failfast", Server: "quorum", Bare: "bare-quorum", Settings: "Redlock over rueidis, WithFailFast(true)", Waits: true, Plain: []string{"set"},
	Open: openRedsyncQuorum(redsync.WithFailFast(true)),
}

func openRedsyncQuorum(options ...redsync.Option) func(context.Context, Place, int) ([]Locker, error) {
	return func(_ context.Context, at Place, n int) ([]Locker, error) {
		clients, closeAll, err := newRueidises(at.Addr, n)
		if err != nil {
			return nil, err
		}
		var pools []redis.Pool
		for _, client := range clients {
			pools = append(pools, rueidispool.NewPool(rueidiscompat.NewAdapter(client)))
		}
		return sharing(n, closeAll, func(users *shared) Locker {
			return &redsyncLocker{users, redsync.New(pools...), options}
		}), nil
	}
}

// newRueidises connects to each of the servers.
func newRueidises(addrs string, lockers int) (clients []rueidis.Client, closeAll func(), err error) {
	closeAll = func() {
		for _, c := range clients {
			go c.Close() // one that is stalled would keep us waiting
		}
	}
	for _, addr := range strings.Split(addrs, ",") {
		client, err := newRueidis(addr, lockers)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients = append(clients, client)
	}
	return clients, closeAll, nil
}

// BareQuorum is the bare pair on all servers at a time, done when a majority has
// answered. It gives no two the lock, and no token.
var BareQuorum = &Candidate{
	Name: "bare-quorum", Server: "quorum", Settings: "the bare pair on all at a time, waits for a majority", Plain: []string{"set"},
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		clients, closeAll, err := newRueidises(at.Addr, n)
		if err != nil {
			return nil, err
		}
		return sharing(n, closeAll, func(users *shared) Locker {
			b := &bareQuorum{shared: users}
			for _, client := range clients {
				b.nodes = append(b.nodes, newBareRueidis(client))
			}
			return b
		}), nil
	},
}

type bareQuorum struct {
	*shared
	nodes []*bareRueidis
}

// bareTimeout is how long a server may take before it is left out.
const bareTimeout = time.Second

// majority does something on all servers and returns when most have done it, or
// cannot any more. The returned channels are closed when each has.
func (b *bareQuorum) majority(do func(ctx context.Context, node int) error) (answered []chan struct{}, err error) {
	answers := make(chan error, len(b.nodes))
	for i := range b.nodes {
		done := make(chan struct{})
		answered = append(answered, done)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), bareTimeout)
			defer cancel()
			err := do(ctx, i)
			close(done)
			answers <- err
		}()
	}
	good, bad, most := 0, 0, len(b.nodes)/2+1
	for good < most {
		if err := <-answers; err == nil {
			good++
		} else if bad++; bad >= most {
			return answered, err
		}
	}
	return answered, nil
}

// Lock implements Locker.
func (b *bareQuorum) Lock(_ context.Context, name string) (Held, error) {
	value := nextValue()
	answered, err := b.majority(func(ctx context.Context, i int) error { return b.nodes[i].take(ctx, name, value) })
	return &quorumHeld{b, name, value, answered}, err
}

type quorumHeld struct {
	*bareQuorum
	name, value string
	answered    []chan struct{}
}

// Unlock implements Held.
func (h *quorumHeld) Unlock(context.Context) error {
	_, err := h.majority(func(ctx context.Context, i int) error {
		<-h.answered[i] // or the key could be deleted before it is written
		return h.nodes[i].give(ctx, h.name, h.value)
	})
	return err
}
