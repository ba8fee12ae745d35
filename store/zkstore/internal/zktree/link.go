// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
)

// record is what the node of a session holds.
type record struct {
	// TTL is in milliseconds.
	TTL int64 `json:"ttl"`
	// Tombstoned are the claims that must not be granted any more.
	Tombstoned []uint64 `json:"tombstoned,omitempty"`
	// Broken are the claims that an operator broke, until they are withdrawn.
	Broken []uint64 `json:"broken,omitempty"`
	// Withdrawn are the broken claims that were withdrawn: a withdrawal that is
	// sent twice must find the claim broken twice.
	Withdrawn []uint64 `json:"withdrawn,omitempty"`
	// Left are the claims that another process withdrew, which has opened this session, too: their
	// nodes were not taken by another program.
	Left []uint64 `json:"left,omitempty"`
	// Closing is set by a process that closes the session of another.
	Closing bool `json:"closing,omitempty"`
}

func (r *record) refuses(seq uint64) bool {
	return slices.Contains(r.Tombstoned, seq) || slices.Contains(r.Broken, seq)
}

// entry is what this process knows of one of its claims.
type entry struct {
	node    node
	token   driver.Token // 0: not read yet
	granted bool         // and reported so
	leaving int          // so many removals were sent, and may have been done
	blocker string       // the node to wait for, if it was queued and there is one
}

// link is a session of the contract: a connection to the ensemble, which is a
// session of ZooKeeper, and an ephemeral node that names it.
//
//	link ── zk.Conn ── wire ── server       node /fencelock/s/<id>: record, version
//
// Every claim is created together with a check that this node is there in the
// version that this process knows. So a session that was closed elsewhere, a claim
// that was tombstoned and one that was broken are all found out in the same request.
type link struct {
	store *Store
	id    string
	path  string
	ttl   time.Duration // what the core asked for
	ask   time.Duration // the timeout asked for, which is longer
	wire  *wire
	conn  *zk.Conn
	begun sync.Once
	has   chan struct{} // closed when there is a session of ZooKeeper
	over  chan struct{} // closed when it has ended
	left  chan struct{} // closed when the library has let go of the connection

	opening    sync.Mutex // one at a time makes the node
	downgrades sync.Mutex // held while a downgrade is sent, and while its outcome is read

	notices storekit.Watches

	mu      sync.Mutex
	open    bool // the node is there
	owner   bool // and is ours; otherwise another process made it
	record  record
	version int32
	claims  map[uint64]entry
	watches map[string]<-chan zk.Event
	owned   owned
	crowded int         // so many watches are worth a sweep
	timer   *time.Timer // ends it unless it is kept alive
	isOver  bool
	expired bool // by the ensemble's answer
	pulse   pulse
}

// dial begins a session of ZooKeeper. It does not wait for it.
func (s *Store) dial(id string, ttl time.Duration) (*link, error) {
	ask := ttl + s.lag(ttl)
	l := &link{
		store: s, id: id, path: s.paths.session(id), ttl: ttl, ask: ask, notices: storekit.Watches{Pause: ask / 8}, wire: newWire(false, ask), pulse: pulse{certain: time.Now()},
		has: make(chan struct{}), over: make(chan struct{}), left: make(chan struct{}),
		claims: map[uint64]entry{}, watches: map[string]<-chan zk.Event{}, crowded: fewWatches,
	}
	conn, events, err := s.connect(l.wire, l.ask, l.event)
	if err != nil {
		return nil, s.errorf("open: %w: %w", driver.ErrUnavailable, err)
	}
	l.conn = conn
	go func() {
		for range events {
		}
		close(l.left)
	}()
	l.mu.Lock()
	l.timer = time.AfterFunc(ttl, l.end)
	l.mu.Unlock()
	return l, nil
}

// connect makes a connection that listens in on itself.
func (s *Store) connect(w *wire, timeout time.Duration, event func(zk.Event)) (*zk.Conn, <-chan zk.Event, error) {
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		conn, err := s.opts.Dial(ctx, network, addr)
		if err != nil {
			w.failed(err)
			return nil, err
		}
		return w.wrap(conn), nil
	}
	conn, events, err := zk.Connect(s.servers, timeout, zk.WithHostProvider(&hosts{}), zk.WithDialer(dial), zk.WithLogger(silence{}), zk.WithLogInfo(false),
		zk.WithEventCallback(event), zk.WithMaxConnBufferSize(sendBuffer))
	if err != nil {
		return nil, nil, err
	}
	return conn, events, nil
}

// sendBuffer is enough for what one request of ours can be; the library's own is
// 1.5 MB for each connection.
const sendBuffer = 512 << 10

// silence is a logger that does not.
type silence struct{}

// Printf implements zk.Logger.
func (silence) Printf(string, ...any) {}

// event is called by the library for each change of the connection.
func (l *link) event(ev zk.Event) {
	if ev.Type != zk.EventSession {
		l.heard(ev)
		return
	}
	switch ev.State {
	case zk.StateExpired:
		l.mu.Lock()
		l.expired = true
		l.mu.Unlock()
		l.end()
	case zk.StateHasSession:
		l.begun.Do(func() { close(l.has) })
	}
}

// ended reports whether the session is over, as far as this process is concerned.
func (l *link) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// end gives the session up: because it was not kept alive, because the ensemble has
// ended it, or to close it. The library would go on with a new session of ZooKeeper;
// without our node that one could do nothing, but it has no business here either.
func (l *link) end() {
	l.mu.Lock()
	if l.isOver {
		l.mu.Unlock()
		return
	}
	l.isOver = true
	close(l.over)
	l.notices.Close()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.store.drop(l)
	go l.conn.Close()
}

// lives is how long the session lives without being kept alive: the TTL asked for,
// unless the server agreed to less.
func (l *link) lives() time.Duration { return min(l.ttl, l.wire.agreed()) }

// kept restarts the timer that ends the session in this process.
func (l *link) kept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOver {
		l.timer.Reset(l.lives())
	}
}

// renewal is what to answer to the core after a request that a majority has answered: what
// is left of the timeout, counted from when the leader does at worst. It is the TTL
// asked for unless the last heartbeat was long ago; then it is less, until the next.
func (l *link) renewal(c *call, sent time.Time) (driver.Renewal, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	early := l.pulse.heard(beat{sent: sent, answered: time.Now()}, l.store.opts.TickTime)
	ttl := min(l.ttl, l.wire.agreed()-early)
	if ttl <= 0 {
		return driver.Renewal{}, c.errorf("%w: the ensemble may count the timeout from %v ago; try again with the next heartbeat", driver.ErrUnavailable, early)
	}
	return driver.Renewal{TTL: ttl, Broken: l.owned.broken(&l.record)}, nil
}

// begin makes the node of the session, or finds it.
func (l *link) begin(c *call) (driver.Renewal, error) {
	sent := time.Now()
	l.opening.Lock()
	defer l.opening.Unlock()
	select {
	case <-l.has:
	case <-l.over:
		return driver.Renewal{}, c.errorf("no session within the TTL: %w", l.wire.why(driver.ErrUnavailable))
	case <-c.ctx.Done():
		return driver.Renewal{}, c.over()
	}
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	if open {
		return l.keepAlive(c)
	}
	if auth := l.store.opts.Auth; auth != "" {
		if err := l.conn.AddAuth("digest", []byte(auth)); err != nil {
			return driver.Renewal{}, c.failed(err)
		}
	}
	if err := l.create(c); err != nil {
		return driver.Renewal{}, err
	}
	if _, err := l.refresh(c); err != nil {
		return driver.Renewal{}, err
	}
	l.mu.Lock()
	l.open = true
	l.mu.Unlock()
	go l.watchSelf()
	l.kept()
	return l.renewal(c, sent)
}

// create makes the node of the session unless it is there.
func (l *link) create(c *call) error {
	text := encode(&record{TTL: l.lives().Milliseconds()})
	for range 3 {
		if err := c.over(); err != nil {
			return err
		}
		_, err := l.conn.Create(l.path, text, zk.FlagEphemeral, l.store.acl)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return c.failed(err)
		}
		for _, path := range append(l.store.layout.above(), l.store.paths.sessions()) {
			if err := c.makeAbove(l.store, path); err != nil {
				return err
			}
		}
	}
	return c.errorf("%s keeps disappearing: %w", l.store.paths.sessions(), driver.ErrUnavailable)
}

// refresh reads the node of the session. If it is not there, or another process is
// closing it, the session has ended.
func (l *link) refresh(c *call) (record, error) {
	data, stat, err := c.get(l.path)
	if err != nil {
		return record{}, err
	}
	var r record
	if stat == nil || json.Unmarshal(data, &r) != nil || r.Closing {
		l.end()
		return record{}, c.gone()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if stat.Version >= l.version {
		l.record, l.version = r, stat.Version
	}
	l.owner = stat.EphemeralOwner == l.conn.SessionID()
	return l.record, nil
}

// refuses reports whether the claim must not be attempted any more.
func (l *link) refuses(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.refuses(seq) || l.owned.wasTaken(seq)
}

// known returns what is known of the node of the session.
func (l *link) known() (record, int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record, l.version
}

// watchSelf ends the session when its node goes: another process closed it, or made
// it and has ended.
func (l *link) watchSelf() {
	for !l.ended() {
		data, _, ch, err := l.conn.GetW(l.path)
		var r record
		if errors.Is(err, zk.ErrNoNode) || err == nil && json.Unmarshal(data, &r) == nil && r.Closing {
			l.end()
			return
		}
		if err != nil {
			// Nothing hangs on this watch: each call checks the node itself.
			select {
			case <-l.over:
			case <-time.After(l.ask / 4):
			}
			continue
		}
		select {
		case <-ch:
		case <-l.over:
		}
	}
}

// keepAlive is one request that only a majority can answer. A read, or a ping of the
// library, is answered by any server, also by one that the others have lost and that
// does not know it yet: the ensemble would end a session that believes to live.
func (l *link) keepAlive(c *call) (driver.Renewal, error) {
	for {
		_, version := l.known()
		sent := time.Now()
		_, at, refusal, err := c.multi(&zk.CheckVersionRequest{Path: l.path, Version: version})
		switch {
		case err != nil:
			return driver.Renewal{}, err
		case at < 0:
			return l.renewal(c, sent)
		case errors.Is(refusal, zk.ErrNoNode):
			l.end()
			return driver.Renewal{}, c.gone()
		}
		if _, err := l.refresh(c); err != nil {
			return driver.Renewal{}, err
		}
	}
}

// amend changes the record of the session, with other changes, or none. It is for
// the link's own session and for that of another.
func amend(c *call, path string, change func(*record), ops ...any) (done bool, refusal error, err error) {
	for {
		data, stat, err := c.get(path)
		if err != nil {
			return false, nil, err
		}
		if stat == nil {
			return false, nil, nil
		}
		var r record
		if err := json.Unmarshal(data, &r); err != nil {
			return false, nil, c.errorf("%s is not a session of this layout: %w", path, err)
		}
		change(&r)
		all := append([]any{&zk.SetDataRequest{Path: path, Data: encode(&r), Version: stat.Version}}, ops...)
		_, at, refusal, err := c.multi(all...)
		switch {
		case err != nil:
			return false, nil, err
		case at > 0:
			return false, refusal, nil
		case at < 0:
			return true, nil, nil
		}
	}
}

// encode cannot fail for the types of this package.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
