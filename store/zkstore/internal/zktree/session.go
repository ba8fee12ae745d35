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

// knownClaim is what this process knows of one of its claims.
type knownClaim struct {
	node    node
	token   driver.Token // 0: not read yet
	granted bool         // and reported so
	leaving int          // so many removals were sent, and may have been done
	blocker string       // the node to wait for, if it was queued and there is one
}

// session is a session of the contract: a connection to the ensemble, which is a
// session of ZooKeeper, and an ephemeral node that names it.
//
//	session ── zk.Conn ── sniffedConn ── server       node /fencelock/s/<id>: record, version
//
// Every claim is created together with a check that this node is there in the
// version that this process knows. So a session that was closed elsewhere, a claim
// that was tombstoned and one that was broken are all found out in the same request.
type session struct {
	store   *Store
	id      string
	path    string
	ttl     time.Duration // what the core asked for
	ask     time.Duration // the timeout asked for, which is longer
	sniffer *sniffer
	conn    *zk.Conn
	begun   sync.Once
	has     chan struct{} // closed when there is a session of ZooKeeper
	over    chan struct{} // closed when it has ended
	left    chan struct{} // closed when the library has let go of the connection

	opening    sync.Mutex // one at a time makes the node
	downgrades sync.Mutex // held while a downgrade is sent, and while its outcome is read

	notices storekit.Watches

	mu      sync.Mutex
	open    bool // the node is there
	owner   bool // and is ours; otherwise another process made it
	record  record
	version int32
	claims  map[uint64]knownClaim
	watches map[string]<-chan zk.Event
	watched watchedGrants
	crowded int         // so many watches are worth a sweep
	timer   *time.Timer // ends it unless it is kept alive
	isOver  bool
	expired bool // by the ensemble's answer
	pulse   pulse
}

// dial begins a session of ZooKeeper. It does not wait for it.
func (s *Store) dial(id string, ttl time.Duration) (*session, error) {
	ask := ttl + s.lag(ttl)
	ss := &session{
		store: s, id: id, path: s.paths.session(id), ttl: ttl, ask: ask, notices: storekit.Watches{Pause: ask / 8}, sniffer: newSniffer(false, ask), pulse: pulse{certain: time.Now()},
		has: make(chan struct{}), over: make(chan struct{}), left: make(chan struct{}),
		claims: map[uint64]knownClaim{}, watches: map[string]<-chan zk.Event{}, crowded: fewWatches,
	}
	conn, events, err := s.connect(ss.sniffer, ss.ask, ss.event)
	if err != nil {
		return nil, s.errorf("open: %w: %w", driver.ErrUnavailable, err)
	}
	ss.conn = conn
	go func() {
		for range events {
		}
		close(ss.left)
	}()
	ss.mu.Lock()
	ss.timer = time.AfterFunc(ttl, ss.end)
	ss.mu.Unlock()
	return ss, nil
}

// connect makes a connection that listens in on itself.
func (s *Store) connect(sn *sniffer, timeout time.Duration, event func(zk.Event)) (*zk.Conn, <-chan zk.Event, error) {
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		conn, err := s.opts.Dial(ctx, network, addr)
		if err != nil {
			sn.failed(err)
			return nil, err
		}
		return sn.wrap(conn), nil
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
func (ss *session) event(ev zk.Event) {
	if ev.Type != zk.EventSession {
		ss.heard(ev)
		return
	}
	switch ev.State {
	case zk.StateExpired:
		ss.mu.Lock()
		ss.expired = true
		ss.mu.Unlock()
		ss.end()
	case zk.StateHasSession:
		ss.begun.Do(func() { close(ss.has) })
	}
}

// ended reports whether the session is over, as far as this process is concerned.
func (ss *session) ended() bool {
	select {
	case <-ss.over:
		return true
	default:
		return false
	}
}

// end gives the session up: because it was not kept alive, because the ensemble has
// ended it, or to close it. The library would go on with a new session of ZooKeeper;
// without our node that one could do nothing, but it has no business here either.
func (ss *session) end() {
	ss.mu.Lock()
	if ss.isOver {
		ss.mu.Unlock()
		return
	}
	ss.isOver = true
	close(ss.over)
	ss.notices.Close()
	if ss.timer != nil {
		ss.timer.Stop()
	}
	ss.mu.Unlock()
	ss.store.drop(ss)
	go ss.conn.Close()
}

// lives is how long the session lives without being kept alive: the TTL asked for,
// unless the server agreed to less.
func (ss *session) lives() time.Duration { return min(ss.ttl, ss.sniffer.agreed()) }

// kept restarts the timer that ends the session in this process.
func (ss *session) kept() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.isOver {
		ss.timer.Reset(ss.lives())
	}
}

// renewal is what to answer to the core after a request that a majority has answered: what
// is left of the timeout, counted from when the leader does at worst. It is the TTL
// asked for unless the last heartbeat was long ago; then it is less, until the next.
func (ss *session) renewal(c *call, sent time.Time) (driver.Renewal, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	early := ss.pulse.heard(beat{sent: sent, answered: time.Now()}, ss.store.opts.TickTime)
	ttl := min(ss.ttl, ss.sniffer.agreed()-early)
	if ttl <= 0 {
		return driver.Renewal{}, c.errorf("%w: the ensemble may count the timeout from %v ago; try again with the next heartbeat", driver.ErrUnavailable, early)
	}
	return driver.Renewal{TTL: ttl, Broken: ss.watched.broken(&ss.record)}, nil
}

// begin makes the node of the session, or finds it.
func (ss *session) begin(c *call) (driver.Renewal, error) {
	sent := time.Now()
	ss.opening.Lock()
	defer ss.opening.Unlock()
	select {
	case <-ss.has:
	case <-ss.over:
		return driver.Renewal{}, c.errorf("no session within the TTL: %w", ss.sniffer.why(driver.ErrUnavailable))
	case <-c.ctx.Done():
		return driver.Renewal{}, c.over()
	}
	ss.mu.Lock()
	open := ss.open
	ss.mu.Unlock()
	if open {
		return ss.keepAlive(c)
	}
	if auth := ss.store.opts.Auth; auth != "" {
		if err := ss.conn.AddAuth("digest", []byte(auth)); err != nil {
			return driver.Renewal{}, c.failed(err)
		}
	}
	if err := ss.create(c); err != nil {
		return driver.Renewal{}, err
	}
	if _, err := ss.refresh(c); err != nil {
		return driver.Renewal{}, err
	}
	ss.mu.Lock()
	ss.open = true
	ss.mu.Unlock()
	go ss.watchSelf()
	ss.kept()
	return ss.renewal(c, sent)
}

// create makes the node of the session unless it is there.
func (ss *session) create(c *call) error {
	text := encode(&record{TTL: ss.lives().Milliseconds()})
	for range 3 {
		if err := c.over(); err != nil {
			return err
		}
		_, err := ss.conn.Create(ss.path, text, zk.FlagEphemeral, ss.store.acl)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return c.failed(err)
		}
		for _, path := range append(ss.store.layout.above(), ss.store.paths.sessions()) {
			if err := c.makeAbove(ss.store, path); err != nil {
				return err
			}
		}
	}
	return c.errorf("%s keeps disappearing: %w", ss.store.paths.sessions(), driver.ErrUnavailable)
}

// refresh reads the node of the session. If it is not there, or another process is
// closing it, the session has ended.
func (ss *session) refresh(c *call) (record, error) {
	data, stat, err := c.get(ss.path)
	if err != nil {
		return record{}, err
	}
	var r record
	if stat == nil || json.Unmarshal(data, &r) != nil || r.Closing {
		ss.end()
		return record{}, c.gone()
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if stat.Version >= ss.version {
		ss.record, ss.version = r, stat.Version
	}
	ss.owner = stat.EphemeralOwner == ss.conn.SessionID()
	return ss.record, nil
}

// refuses reports whether the claim must not be attempted any more.
func (ss *session) refuses(seq uint64) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.record.refuses(seq) || ss.watched.wasTaken(seq)
}

// known returns what is known of the node of the session.
func (ss *session) known() (record, int32) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.record, ss.version
}

// watchSelf ends the session when its node goes: another process closed it, or made
// it and has ended.
func (ss *session) watchSelf() {
	for !ss.ended() {
		data, _, ch, err := ss.conn.GetW(ss.path)
		var r record
		if errors.Is(err, zk.ErrNoNode) || err == nil && json.Unmarshal(data, &r) == nil && r.Closing {
			ss.end()
			return
		}
		if err != nil {
			// Nothing hangs on this watch: each call checks the node itself.
			select {
			case <-ss.over:
			case <-time.After(ss.ask / 4):
			}
			continue
		}
		select {
		case <-ch:
		case <-ss.over:
		}
	}
}

// keepAlive is one request that only a majority can answer. A read, or a ping of the
// library, is answered by any server, also by one that the others have lost and that
// does not know it yet: the ensemble would end a session that believes to live.
func (ss *session) keepAlive(c *call) (driver.Renewal, error) {
	for {
		_, version := ss.known()
		sent := time.Now()
		_, at, refusal, err := c.multi(&zk.CheckVersionRequest{Path: ss.path, Version: version})
		switch {
		case err != nil:
			return driver.Renewal{}, err
		case at < 0:
			return ss.renewal(c, sent)
		case errors.Is(refusal, zk.ErrNoNode):
			ss.end()
			return driver.Renewal{}, c.gone()
		}
		if _, err := ss.refresh(c); err != nil {
			return driver.Renewal{}, err
		}
	}
}

// amend changes the record of the session, with other changes, or none. It is for
// the session itself and for that of another.
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

// KeepAlive implements driver.Session.
func (ss *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	return run(ss.again(ctx, "keep alive"), func(c *call) (driver.Renewal, error) {
		_ = ss.findOutcomes(c) // the next heartbeat tries again
		return ss.keepAlive(c)
	})
}

// Close implements driver.Session. Ending the session of ZooKeeper removes every
// claim in one transaction.
func (ss *session) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return ss.store.errorf("close: %w", err)
	}
	ss.mu.Lock()
	guest := ss.open && !ss.owner && !ss.isOver
	ss.mu.Unlock()
	if guest {
		if err := ss.askToClose(ctx); err != nil {
			return err
		}
	}
	ss.end()
	select {
	case <-ss.sniffer.closed:
		return nil
	case <-ctx.Done():
		return ss.store.errorf("close: %w: %w", driver.ErrUnknown, ctx.Err())
	case <-ss.left:
	}
	ss.mu.Lock()
	expired := ss.expired
	ss.mu.Unlock()
	select {
	case <-ss.sniffer.closed:
		return nil
	default:
	}
	if expired {
		return nil
	}
	// The connection broke before the answer came. The ensemble ends the session
	// when it has not heard of it for its timeout.
	return ss.store.vanished(ctx, ss.path)
}

// askToClose makes the process that opened the session close it, and waits for that.
func (ss *session) askToClose(ctx context.Context) error {
	_, err := run(ss.call(ctx, "close"), func(c *call) (struct{}, error) {
		_, _, err := amend(c, ss.path, func(r *record) { r.Closing = true })
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	return ss.store.vanished(ctx, ss.path)
}

// vanished waits until a node is not there.
func (s *Store) vanished(ctx context.Context, path string) error {
	c, err := s.sessionlessCall(ctx, "close")
	if err != nil {
		return err
	}
	_, err = run(c, func(c *call) (struct{}, error) {
		for {
			if err := c.catchUp(s); err != nil {
				return struct{}{}, err
			}
			there, _, changed, err := c.conn.ExistsW(path)
			switch {
			case err != nil:
				return struct{}{}, c.failed(err)
			case !there:
				return struct{}{}, nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return struct{}{}, c.over()
			}
		}
	})
	return err
}
