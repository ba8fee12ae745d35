// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/redis/go-redis/v9"
)

// Config is the first line of input of a member: a process of the fleet.
type Config struct {
	// Addr is the server, or Sentinels know it by the name Master.
	Addr      string        `json:"addr"`
	Sentinels []string      `json:"sentinels"`
	Master    string        `json:"master"`
	Grace     bool          `json:"grace"`
	TTL       time.Duration `json:"ttl"`
	// Sessions are numbered from First on.
	First    int `json:"first"`
	Sessions int `json:"sessions"`
}

// Order is a later line of input.
type Order struct {
	// Op is one of the methods of member below.
	Op string `json:"op"`
	// Name begins the names of locks, From and Leases are how many of them each session gets.
	Name   string `json:"name"`
	From   int    `json:"from"`
	Leases int    `json:"leases"`
	// Every is which sessions get them: those whose number it divides.
	Every int `json:"every"`
	// Step is how far ahead the wall clock is set.
	Step time.Duration `json:"step"`
}

// Reply is the answer to a line of input.
type Reply struct {
	Error string `json:"error,omitempty"`
	// Held are leases that are held; Lost leases and EndedSessions were lost since the beginning;
	// Resumed sessions were opened again after a data loss, the last of them at LastResumed.
	Held          int64     `json:"held"`
	Lost          int64     `json:"lost"`
	EndedSessions int64     `json:"ended_sessions"`
	Resumed       int64     `json:"resumed"`
	LastResumed   int64     `json:"last_resumed"`
	FailedRenewal int64     `json:"failed_renewal"`
	Served        int64     `json:"served"`
	FirstServed   int64     `json:"first_served"`
	LastServed    int64     `json:"last_served"`
	Arrivals      Histogram `json:"arrivals"`
	Why           string    `json:"why,omitempty"` // the first loss
	Clock         int64     `json:"clock"`         // wall clock in ms since 1970
}

// member is a process of the fleet.
type member struct {
	cfg     Config
	count   arrivals
	store   driver.Store
	clients []*fencelock.Client
	mu      sync.Mutex
	leases  []*fencelock.Lease
	why     string

	held, lost, ended, resumed, failed atomic.Int64
	lastResumed                        atomic.Int64
	served, firstServed, lastServed    atomic.Int64
}

// Member is a process of the fleet: it carries out one line of input after the other, until the input ends.
func Member(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	replies := json.NewEncoder(out)
	m := &member{}
	now := time.Now() // with its monotonic part, which does not step
	m.count.began = now.Add(-time.Duration(now.UnixNano() % int64(binWidth)))
	for first := true; lines.Scan(); first = false {
		var r Reply
		err := error(nil)
		if first {
			err = json.Unmarshal(lines.Bytes(), &m.cfg)
			if err == nil {
				err = m.open()
			}
		} else {
			var o Order
			if err = json.Unmarshal(lines.Bytes(), &o); err == nil {
				r, err = m.do(o)
			}
		}
		if err != nil {
			r.Error = err.Error()
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) open() error {
	var client redis.UniversalClient
	if len(m.cfg.Sentinels) > 0 {
		client = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: m.cfg.Master, SentinelAddrs: m.cfg.Sentinels, ContextTimeoutEnabled: true, DisableIdentity: true})
	} else {
		client = redis.NewClient(&redis.Options{Addr: m.cfg.Addr, ContextTimeoutEnabled: true, DisableIdentity: true})
	}
	client.AddHook(&m.count)
	var err error
	m.store, err = redisstore.New(client, &redisstore.Options{Grace: m.cfg.Grace, MaxTTL: m.cfg.TTL, Accept: []string{"min-replicas"}, Warn: func(driver.Finding) {}})
	if err != nil {
		return err
	}
	opts := &fencelock.Options{TTL: m.cfg.TTL, StoreTimeout: 5 * time.Minute, Hooks: fencelock.Hooks{Event: m.event}}
	for range m.cfg.Sessions {
		c, err := fencelock.New(m.store, opts)
		if err != nil {
			return err
		}
		m.clients = append(m.clients, c)
	}
	return nil
}

// event counts what happens to sessions and leases.
func (m *member) event(e fencelock.Event) {
	switch e.Kind {
	case fencelock.SessionResumed:
		m.resumed.Add(1)
		later(&m.lastResumed)
	case fencelock.SessionRenewalFailed:
		m.failed.Add(1)
	case fencelock.SessionLost:
		m.ended.Add(1)
		m.because(e.Err)
	case fencelock.LeaseLost:
		m.lost.Add(1)
		m.because(e.Err)
	}
}

func (m *member) because(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why == "" {
		m.why = fmt.Sprint(err)
	}
}

// later notes that something happened last now.
func later(at *atomic.Int64) {
	now := time.Now().UnixMilli()
	for was := at.Load(); was < now && !at.CompareAndSwap(was, now); was = at.Load() {
	}
}

func (m *member) do(o Order) (Reply, error) {
	var err error
	switch o.Op {
	case "hold":
		err = m.hold(o)
	case "queue":
		m.queue(o)
	case "use":
		err = m.use(o)
	case "check":
		m.check()
	case "step":
		err = setClock(o.Step)
	case "status":
	default:
		err = fmt.Errorf("unknown order %q", o.Op)
	}
	return m.status(), err
}

func (m *member) status() Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Reply{Held: m.held.Load(), Lost: m.lost.Load(), EndedSessions: m.ended.Load(), Resumed: m.resumed.Load(), LastResumed: m.lastResumed.Load(),
		FailedRenewal: m.failed.Load(), Served: m.served.Load(), FirstServed: m.firstServed.Load(), LastServed: m.lastServed.Load(), Arrivals: m.count.counts(), Why: m.why,
		Clock: time.Now().UnixMilli()}
}

func nameOf(prefix string, session, lease int) string {
	return fmt.Sprintf("%s/%d/%d", prefix, session, lease)
}

// each calls f for every session that an order is for, some of them at the same time.
func (m *member) each(o Order, parallel int, f func(c *fencelock.Client, session int) error) error {
	work, failed := make(chan int), make(chan error, len(m.clients))
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for i := range work {
				if err := f(m.clients[i], m.cfg.First+i); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range m.clients {
		if o.Every <= 1 || (m.cfg.First+i)%o.Every == 0 {
			work <- i
		}
	}
	close(work)
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// hold lets each session acquire its locks and keep them. A lock that a dead session has is waited for.
func (m *member) hold(o Order) error {
	return m.each(o, len(m.clients), func(c *fencelock.Client, session int) error {
		for i := range o.Leases {
			l, err := c.Mutex(nameOf(o.Name, session, o.From+i)).Lock(context.Background())
			if err != nil {
				return err
			}
			m.held.Add(1)
			m.mu.Lock()
			m.leases = append(m.leases, l)
			m.mu.Unlock()
		}
		return nil
	})
}

// queue lets each session wait for one lock, and release it at once. It does not wait for that.
func (m *member) queue(o Order) {
	wait := func(c *fencelock.Client, _ int) error {
		l, err := c.Mutex(o.Name).Lock(context.Background())
		if err != nil {
			m.because(err)
			return err
		}
		now := time.Now().UnixMilli()
		m.firstServed.CompareAndSwap(0, now)
		later(&m.lastServed)
		m.served.Add(1)
		return l.Unlock(context.Background())
	}
	go func() { _ = m.each(o, len(m.clients), wait) }() // each error is kept by because
}

// use locks and unlocks some of the locks of a session once.
func (m *member) use(o Order) error {
	return m.each(o, 64, func(c *fencelock.Client, session int) error {
		for i := range o.Leases {
			l, err := c.Mutex(nameOf(o.Name, 0, o.From+session*o.Leases+i)).Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			if err != nil {
				return err
			}
			m.served.Add(1)
			later(&m.lastServed)
		}
		return nil
	})
}

// check counts the leases that are valid.
func (m *member) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int64(0)
	for _, l := range m.leases {
		if l.Valid() {
			n++
		}
	}
	m.held.Store(n)
}
