// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/composite"
	"github.com/fencelock/fencelock/store/quorum/internal/vote"
)

// Store is a quorum of stores. Make one with New. It is safe for
// concurrent use.
type Store struct {
	nodes  []Node
	opts   Options
	caps   driver.Caps
	list   string // a hash of the names: what all clients must agree on
	listed string // the names, for people
	// latest is the highest token seen, in steps: what is asked for next is above
	// it, so that nodes that heard of different grants still answer alike.
	latest     atomic.Int64
	health     *health
	background background
	last       atomic.Pointer[span] // of the contexts of calls, the latest

	mu       sync.Mutex
	sessions map[sessionKey]*quorumSession // the sessions of this process
}

var _ driver.Store = (*Store)(nil)

// New returns a store over the nodes. It does no I/O. A nil opts is fine.
//
// It works as long as a majority of the nodes does. Every client of the nodes must
// be given the same ones, under the same names; their order does not matter.
func New(nodes []Node, opts *Options) (*Store, error) {
	o, err := opts.complete()
	if err == nil {
		err = check(nodes)
	}
	if err != nil {
		return nil, err
	}
	caps := combined(nodes)
	if o, err = o.bounded(caps.MaxTTL); err != nil {
		return nil, err
	}
	s := &Store{nodes: slices.Clone(nodes), opts: o, caps: caps, sessions: map[sessionKey]*quorumSession{}}
	slices.SortFunc(s.nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	var names []string
	for _, n := range s.nodes {
		names = append(names, n.Name)
	}
	s.listed = strings.Join(names, ",")
	sum := sha256.Sum256([]byte(s.listed))
	s.list = hex.EncodeToString(sum[:8])
	s.health = newHealth(s)
	return s, nil
}

// combined is what all nodes can do together.
func combined(nodes []Node) driver.Caps {
	c := nodes[0].Store.Caps()
	server := c.Engine
	for _, n := range nodes[1:] {
		d := n.Store.Caps()
		if d.Engine != c.Engine {
			server = "stores"
		}
		grace, push := c.Grace && d.Grace, c.Push && d.Push
		c = composite.Common(c, d)
		c.Grace, c.Push = grace, push
	}
	c.Engine = fmt.Sprintf("quorum of %d × %s", len(nodes), server)
	// Claims are queued on every node, but not in one order: two that come at
	// the same moment may come in different orders on different nodes, and the one
	// that gives way goes to the end.
	c.Queue = false
	c.Linger = false // a waiter that has some of the votes would be recalled by another
	c.Floor = false  // a quorum hands out tokens its nodes agreed on; it cannot be given one
	c.Assumes = assumes(c)
	c.Advice = ""
	if !c.Grace && c.Durability != driver.Durable {
		c.Advice = "open all nodes with grace=true in the URL (Options{Grace: true} for each), so that one that lost its data grants nothing until every earlier session must have ended"
	}
	return c
}

// assumes returns which clocks must agree, and for what. One node that loses its data is enough
// to need them: it may be the only one that two claims share.
func assumes(c driver.Caps) string {
	text := "Token order needs no clock while no node loses its data."
	if c.Grace {
		return text + fmt.Sprintf(" When any number of nodes lose their data, token order needs the clocks of the nodes"+
			" within %v of each other, steps included. The client measures them: a node that is more than %v from the median does not count.",
			c.MaxTTL, c.MaxTTL/2)
	}
	return text + " When a node loses its data, token order is not promised, because the node has no grace."
}

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps { return s.caps }

// Shard implements driver.Store.
func (s *Store) Shard(name string) string { return s.nodes[0].Store.Shard(name) }

// majority is how many nodes decide.
func (s *Store) majority() int { return vote.Majority(len(s.nodes)) }

// next returns a token above every one seen so far, for nodes to agree on.
func (s *Store) next() driver.Token { return driver.Token(s.latest.Add(1) * driver.TokenStep) }

// sawToken notes a token that a node gave or reported.
func (s *Store) sawToken(t driver.Token) {
	steps := int64(t) / driver.TokenStep
	for {
		old := s.latest.Load()
		if steps <= old || s.latest.CompareAndSwap(old, steps) {
			return
		}
	}
}

// reserved starts the names that the quorum uses on the nodes for itself.
const reserved = ".quorum/"

// allowed refuses names that are the quorum's own.
func allowed(name string) error {
	if strings.HasPrefix(name, reserved) {
		return fmt.Errorf("quorum: names that start with %q are reserved: %w", reserved, driver.ErrRefused)
	}
	return nil
}

// errNotStarted wraps the error of a context that was over before anything was done.
func errNotStarted(op string, err error) error { return fmt.Errorf("quorum: %s: %w", op, err) }

// errCanceled wraps the error of a context that ended in the middle.
func errCanceled(op string, err error) error {
	return fmt.Errorf("quorum: %s: %w: %w", op, driver.ErrUnknown, err)
}

// spent is how long a call has waited for nodes, and with it how much longer it is
// worth waiting for the rest: as long again, and at least a little.
func spent(began time.Time, least time.Duration) time.Duration {
	return max(time.Since(began), least)
}

// Check asks every node whose store is a driver.Checker whether its servers are fit to keep
// locks. The Node of a finding begins with the name of the node. A node that does not answer
// is a finding (unreachable) and not an error: locks work while a majority of the nodes does.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	var all []composite.Part
	for _, n := range s.nodes {
		all = append(all, composite.Part{Name: n.Name, Store: n.Store})
	}
	return composite.Check(ctx, all, func(down int) driver.Finding {
		f := driver.Finding{Severity: driver.Warning, Fix: "start it",
			Reason: fmt.Sprintf("%d of %d nodes do not answer; locks work while a majority does", down, len(all))}
		if len(all)-down < s.majority() {
			f.Severity = driver.Danger
		}
		return f
	}), nil
}
