// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// DefaultNodeTimeout is how long a call to one node may take unless Options set
// otherwise.
const DefaultNodeTimeout = time.Second

// maxNodes is what a vote.Set can hold with room to spare; more nodes than a few
// make a quorum slower, not safer.
const maxNodes = 32

// Node is one of the stores. Nodes must share nothing: neither a server, nor a
// replica of each other.
type Node struct {
	// Name is how every process calls this node; it must not be empty. All
	// clients must use the same names for the same stores: the list of them is
	// kept on the nodes, and a client with another list is refused.
	Name string
	// Store must be able to vote (Caps.Floor) and to recognize a list
	// (Caps.Reentry).
	Store driver.Store
}

// Options change what a quorum does. The zero value, or nil, is fine.
type Options struct {
	// NodeTimeout bounds a call to one node: a node that does not answer within
	// it is regarded as away until it answers a keep-alive. No call waits for it
	// as long as enough others answer. It must be below the TTL of every session.
	// Default DefaultNodeTimeout, or a quarter of the longest TTL that the nodes
	// allow if that is shorter.
	NodeTimeout time.Duration
	// Alarm is called with what an operator should know: a node went away or came back,
	// lost its data, has a clock that is too far from the others, or belongs to another
	// list. Each is reported when it changes; NodeReset once for each session that was
	// there. Alarm is called from several goroutines, also at the same time, and must
	// return soon. By default alarms go to slog.Default.
	Alarm func(Alarm)
}

// AlarmKind is what an Alarm is about.
type AlarmKind string

// The kinds of alarms.
const (
	// NodeAway: it did not answer in time.
	NodeAway AlarmKind = "away"
	// NodeBack: it answers again.
	NodeBack AlarmKind = "back"
	// NodeReset: it lost its data. It grants nothing until every earlier session
	// must have ended; holders are put back in that time.
	NodeReset AlarmKind = "reset"
	// ClocksApart: the clocks of two nodes differ by more than a tenth of the
	// longest TTL. Tokens stay ordered over a data loss only while they
	// differ by less than that TTL.
	ClocksApart AlarmKind = "clocks apart"
	// NodeNotCounted: its clock is further from the median than half of the longest
	// TTL, so what it grants does not count.
	NodeNotCounted AlarmKind = "not counted"
	// NodeCounted: its clock is near the median again.
	NodeCounted AlarmKind = "counted"
	// OtherList: another client uses it with another list of nodes.
	OtherList AlarmKind = "other list"
)

// Alarm is something an operator should know.
type Alarm struct {
	// Kind is what happened.
	Kind AlarmKind
	// Node is the name of the node.
	Node string
	// Skew is how far its clock is from the median of all, or for ClocksApart how
	// far the two most distant clocks are apart.
	Skew time.Duration
	// Err is why, if there is an error.
	Err error
}

func (o *Options) complete() (Options, error) {
	var s Options
	if o != nil {
		s = *o
	}
	if s.NodeTimeout < 0 {
		return s, fmt.Errorf("quorum: Options.NodeTimeout is %v; it must not be negative", s.NodeTimeout)
	}
	if s.Alarm == nil {
		s.Alarm = func(a Alarm) {
			slog.Warn("quorum: node "+string(a.Kind), "node", a.Node, "skew", a.Skew, "error", a.Err)
		}
	}
	return s, nil
}

// bounded returns the options with a NodeTimeout below the longest TTL of the nodes, which may
// be 0 for any. A session could otherwise end on a node while a call to that node is waited for.
func (o Options) bounded(maxTTL time.Duration) (Options, error) {
	if o.NodeTimeout == 0 {
		o.NodeTimeout = DefaultNodeTimeout
		if maxTTL > 0 {
			o.NodeTimeout = min(o.NodeTimeout, maxTTL/4)
		}
	}
	if maxTTL > 0 && o.NodeTimeout >= maxTTL {
		return o, fmt.Errorf("quorum: Options.NodeTimeout is %v; it must be below the longest TTL that the nodes allow, %v", o.NodeTimeout, maxTTL)
	}
	return o, nil
}

// check returns what is wrong with a list of nodes.
func check(nodes []Node) error {
	if len(nodes) < 3 {
		return fmt.Errorf("quorum: %d nodes cannot lose one and go on; use at least 3", len(nodes))
	}
	if len(nodes) > maxNodes {
		return fmt.Errorf("quorum: %d nodes are more than %d", len(nodes), maxNodes)
	}
	var bad []error
	names := map[string]bool{}
	for i, n := range nodes {
		what := fmt.Sprintf("node %d (%q)", i, n.Name)
		switch {
		case n.Name == "" || strings.ContainsAny(n.Name, " ,\n"):
			bad = append(bad, fmt.Errorf("%s needs a name without spaces and commas, the same in every process", what))
		case names[n.Name]:
			bad = append(bad, fmt.Errorf("%s is there twice", what))
		case n.Store == nil:
			bad = append(bad, fmt.Errorf("%s has no store", what))
		default:
			bad = append(bad, canVote(what, n.Store.Caps()))
		}
		names[n.Name] = true
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("quorum: %w", err)
	}
	return alike(nodes)
}

func canVote(what string, c driver.Caps) error {
	if !c.Floor || !c.Reentry || c.Fencing == driver.NoFencing {
		return fmt.Errorf("%s: a %s store cannot vote, because its Caps lack Floor, Reentry or Fencing: %w", what, c.Engine, driver.ErrUnsupported)
	}
	return nil
}

// samples is how many names are tried to see whether nodes spread them alike.
const samples = 256

// alike checks that all nodes keep a name on the same shard: a session is on one
// shard of each.
func alike(nodes []Node) error {
	for i := range samples {
		name := fmt.Sprintf("sample/%d", i)
		for _, n := range nodes[1:] {
			if n.Store.Shard(name) != nodes[0].Store.Shard(name) {
				return fmt.Errorf("quorum: nodes %q and %q spread names over different shards; set them up alike: %w",
					nodes[0].Name, n.Name, driver.ErrRefused)
			}
		}
	}
	return nil
}
