// SPDX-License-Identifier: Apache-2.0

package fill

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/driver"
)

// Owner is a process with one session on each shard that it uses, opened through the
// store. It is for one goroutine.
type Owner struct {
	store    driver.Store
	client   redis.UniversalClient
	id       driver.SessionID
	ttl      time.Duration
	sessions map[string]driver.Session // by shard
	renewed  time.Time
	held     uint64
	stop     context.CancelFunc
	kept     sync.WaitGroup
}

// NewOwner returns an owner whose sessions end after a TTL, unless it is kept alive. client
// writes what the store reads.
func NewOwner(store driver.Store, client redis.UniversalClient, ttl time.Duration) *Owner {
	return &Owner{store: store, client: client, id: driver.NewSessionID(), ttl: ttl, sessions: map[string]driver.Session{}}
}

// open opens a session on a shard.
func (o *Owner) open(ctx context.Context, shard string) error {
	if o.sessions[shard] != nil {
		return nil
	}
	s, _, err := o.store.Open(ctx, driver.OpenRequest{Shard: shard, ID: o.id, TTL: o.ttl})
	if err == nil {
		o.sessions[shard], o.renewed = s, time.Now()
	}
	return err
}

// Ends is when the sessions have ended, unless they are kept alive.
func (o *Owner) Ends() time.Time { return o.renewed.Add(o.ttl) }

// renew keeps the sessions alive if it is time.
func (o *Owner) renew(ctx context.Context) error {
	if time.Since(o.renewed) < o.ttl/4 {
		return nil
	}
	for _, s := range o.sessions {
		if _, err := s.KeepAlive(ctx); err != nil {
			return err
		}
	}
	o.renewed = time.Now()
	return nil
}

// atOnce is how many locks of one shard Hold writes in one pipeline.
const atOnce = 10_000

// Hold makes the owner hold n locks: name/0, name/1 and so on. progress, if not nil, is
// called from time to time with how many are held.
func (o *Owner) Hold(ctx context.Context, name string, n int, progress func(held int)) error {
	lots := map[string][]string{} // names to write, by shard
	for i := range n {
		full := fmt.Sprintf("%s/%d", name, i)
		shard := o.store.Shard(full)
		lots[shard] = append(lots[shard], full)
		if len(lots[shard]) == atOnce {
			if err := o.write(ctx, shard, lots[shard]); err != nil {
				return err
			}
			lots[shard] = lots[shard][:0]
		}
		if progress != nil && (i+1)%1_000_000 == 0 {
			progress(i + 1)
		}
	}
	for shard, names := range lots {
		if err := o.write(ctx, shard, names); err != nil {
			return err
		}
	}
	for _, i := range []int{0, n - 1} {
		if err := Holders(ctx, o.store, fmt.Sprintf("%s/%d", name, i), 1); err != nil {
			return err
		}
	}
	return nil
}

// write writes the grants of names of one shard.
func (o *Owner) write(ctx context.Context, shard string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := o.renew(ctx); err != nil {
		return err
	}
	if err := o.open(ctx, shard); err != nil {
		return err
	}
	of, err := buckets(ctx, o.client)
	if err != nil {
		return err
	}
	key := bucket(shard, of)
	s, err := sessionOf(ctx, o.client, key, o.id)
	if err != nil {
		return err
	}
	counter, err := counters(ctx, o.client, key, len(names))
	if err != nil {
		return err
	}
	_, err = o.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		hold(ctx, p, key, s, o.held+1, counter, names)
		return nil
	})
	o.held += uint64(len(names))
	return err
}

// Holders is an error if the store does not see so many holders of a lock.
func Holders(ctx context.Context, store driver.Store, name string, n int) error {
	st, err := store.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if seen := len(st.Holders) + st.MoreHolders; seen != n {
		return fmt.Errorf("layout: the store sees %d holders of %q, not the %d that were written: their sessions have ended, or this package does not write the layout of the store", seen, name, n)
	}
	return nil
}

// KeepAlive keeps the sessions alive until Close. Call it after Hold.
func (o *Owner) KeepAlive(ctx context.Context) {
	ctx, o.stop = context.WithCancel(ctx)
	for _, s := range o.sessions {
		o.kept.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.KeepAlive(ctx) // the next is soon enough
				select {
				case <-ctx.Done():
				case <-time.After(o.ttl / 4):
				}
			}
		})
	}
}

// Close ends KeepAlive. The sessions end by themselves, with all they hold.
func (o *Owner) Close() {
	if o.stop != nil {
		o.stop()
	}
	o.kept.Wait()
}

// Share makes so many processes, each with its own session, hold a lock together.
func Share(ctx context.Context, store driver.Store, name string, processes int, ttl time.Duration) error {
	terms := &driver.Terms{Mode: driver.Shared, Weight: 1, Record: &driver.Record{Owner: "web-17:4242"}}
	err := Parallel(processes, func(int) error {
		s, _, err := store.Open(ctx, driver.OpenRequest{Shard: store.Shard(name), ID: driver.NewSessionID(), TTL: ttl})
		if err == nil {
			_, err = s.Attempt(ctx, &driver.Claim{Seq: 1, Name: name, Terms: terms})
		}
		return err
	})
	if err != nil {
		return err
	}
	return Holders(ctx, store, name, processes)
}

// workers is how many calls Parallel has under way.
const workers = 64

// Parallel calls f for 0 to n-1, some at the same time, and returns the first error.
func Parallel(n int, f func(i int) error) error {
	errs := make(chan error, workers)
	for w := range workers {
		go func() {
			var err error
			for i := w; i < n && err == nil; i += workers {
				err = f(i)
			}
			errs <- err
		}()
	}
	var first error
	for range workers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
