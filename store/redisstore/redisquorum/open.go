// SPDX-License-Identifier: Apache-2.0

package redisquorum

import (
	"context"
	"errors"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/quorum"
	"github.com/fencelock/fencelock/store/redisstore"
)

func init() { driver.Register(opener, driver.Variants("quorum")...) }

// Options are the settings that a URL cannot have; nil stands for the defaults.
type Options struct {
	// Node has the options of every server. Settings of the namespace belong into the
	// URL, or must agree with it.
	Node redisstore.Options
	// Quorum has the options of the quorum.
	Quorum quorum.Options
}

// Store is a quorum that owns its connections. Make one with Open.
type Store struct {
	*quorum.Store
	nodes map[string]*redisstore.Store // by name
}

var _ driver.Store = (*Store)(nil)

// Open returns a store over the servers of a URL. It sends nothing to them: a minority
// may be down. What is wrong with a server is found when the first lock is acquired.
// Errors never show a password.
//
//	quorum://[user[:password]@]host[:port],host[:port],host[:port][,...][/database][?parameters]
//
// With quorums everything goes over TLS. The port is 6379 if none is given. User,
// password, database and parameters are those of every server, and are written as for
// redisstore.Open. Name the servers in the same way in every process, as the quorum
// knows them by host and port; their order does not matter. Use it with grace=true.
func Open(_ context.Context, url string, opts *Options) (*Store, error) {
	nodes, err := nodeURLs(url)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Store{nodes: map[string]*redisstore.Store{}}
	var members []quorum.Node
	for _, n := range nodes {
		store, err := redisstore.FromURL(n.url, &o.Node)
		if err != nil {
			return nil, errors.Join(err, s.closeNodes())
		}
		if s.nodes[n.name] != nil {
			return nil, errors.Join(errors.New("redisquorum: the URL has a server twice"), store.Close(), s.closeNodes())
		}
		s.nodes[n.name] = store
		members = append(members, quorum.Node{Name: n.name, Store: store})
	}
	s.Store, err = quorum.New(members, &o.Quorum)
	if err != nil {
		return nil, errors.Join(err, s.closeNodes())
	}
	return s, nil
}

// opener is Open for driver.OpenStore. Alarms become findings.
func opener(ctx context.Context, url string, opts driver.OpenOptions) (driver.OpenedStore, error) {
	o := &Options{Node: redisstore.Options{Warn: opts.Warn}}
	if opts.Warn != nil {
		o.Quorum.Alarm = func(a quorum.Alarm) { opts.Warn(finding(a)) }
	}
	s, err := Open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close waits for the calls under way, and closes the connections. Close the
// fencelock.Client first.
func (s *Store) Close() error {
	// A call that loses its connection looks as if the server were away.
	return errors.Join(s.Store.Close(), s.closeNodes())
}

func (s *Store) closeNodes() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// node is one server of a URL.
type node struct{ name, url string }

// nodeURLs makes a URL for each server.
func nodeURLs(text string) (nodes []node, err error) {
	a, err := storekit.Form{Package: "redisquorum", Scheme: "quorum", Port: "6379"}.Parse(text)
	if err != nil {
		return nil, err
	}
	begin, end := "redis://", "/"+a.Path+"?"+a.Query
	if a.Secure {
		begin = "rediss://"
	}
	if a.User != nil {
		begin += a.User.String() + "@"
	}
	for _, host := range a.Hosts {
		nodes = append(nodes, node{host, begin + host + end})
	}
	return nodes, nil
}

// finding is an alarm as a finding: a server that is back, or counts again, is a note.
func finding(a quorum.Alarm) driver.Finding {
	f := driver.Finding{Severity: driver.Warning, Code: strings.ReplaceAll(string(a.Kind), " ", "-"), Node: a.Node, Reason: string(a.Kind)}
	if a.Kind == quorum.NodeBack || a.Kind == quorum.NodeCounted {
		f.Severity = driver.Note
	}
	if a.Err != nil {
		f.Reason += ": " + a.Err.Error()
	}
	return f
}
