// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// call is one call of the contract while it makes its requests. One whose context
// has ended finishes the request under way and makes no further one.
type call struct {
	ctx     context.Context
	pkg     string // whose errors it returns
	conn    *zk.Conn
	session *session        // nil for calls that belong to no session
	done    <-chan struct{} // closed with the store
	op      string
	// again is set if the call may be made again when a connection was lost under it:
	// making it twice does what making it once does, and answers the same.
	again bool
	// wrote is set when a request may have changed something: what fails after
	// that is not "certainly nothing".
	wrote bool
}

// run makes the requests of a call, and returns when ctx ends even if a request has
// not: the client library knows no contexts.
func run[T any](c *call, requests func(*call) (T, error)) (T, error) {
	var zero T
	if err := c.over(); err != nil {
		return zero, err
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := requests(c)
		for c.again && errors.Is(err, zk.ErrConnectionClosed) && c.over() == nil {
			// The library holds requests back until it is connected again.
			v, err = requests(c)
		}
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-c.ctx.Done():
		return zero, c.errorf("%w: %w", driver.ErrUnknown, c.ctx.Err())
	}
}

// errorf returns an error of the call.
func (c *call) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %s: "+format, append([]any{c.pkg, c.op}, args...)...)
}

// over returns the context's error, or that the session has ended.
func (c *call) over() error {
	if err := c.ctx.Err(); err != nil {
		if c.wrote {
			return c.errorf("%w: %w", driver.ErrUnknown, err)
		}
		return c.errorf("%w", err)
	}
	if c.session != nil && c.session.ended() {
		return c.gone()
	}
	select {
	case <-c.done:
		return c.errorf("the store is closed: %w", driver.ErrUnavailable)
	default:
		return nil
	}
}

func (c *call) gone() error {
	return c.errorf("session %s: %w", c.session.id, driver.ErrGone)
}

// failed returns what an error of the client library means. Those that the caller
// expects, such as a node that is not there, do not come here.
func (c *call) failed(err error) error {
	if c.session != nil && (c.session.ended() || errors.Is(err, zk.ErrSessionExpired)) {
		c.session.end()
		return c.gone()
	}
	meaning := driver.ErrUnknown
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed):
		return c.errorf("the ensemble denies this user access; check the user and password of the URL (Options.Auth), and the ACLs below the root: %w", err)
	case mustAuthenticate(err):
		return c.errorf("the ensemble lets no client in without authentication; give a user and password in the URL (Options.Auth), "+
			"and let the servers accept the scheme digest (enforce.auth.schemes): SASL is not supported: %w", err)
	case c.wrote:
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrSessionExpired):
		meaning = driver.ErrUnavailable
	}
	if ended := c.ctx.Err(); ended != nil {
		return c.errorf("%w: %w: %w", meaning, ended, err)
	}
	return c.errorf("%w: %w", meaning, err)
}

// mustAuthenticate reports whether the ensemble ended the connection because it wants SASL
// (sessionRequireClientSASLAuth) or another authentication (enforce.auth.enabled). Nothing was
// done then. The client library has no name for the code.
func mustAuthenticate(err error) bool { return err != nil && err.Error() == "unknown error: -124" }

// children lists a lock. A lock that is not there has none; its stat is nil.
func (c *call) children(path string) ([]string, *zk.Stat, error) {
	if err := c.over(); err != nil {
		return nil, nil, err
	}
	names, stat, err := c.conn.Children(path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil, nil
	case err != nil:
		return nil, nil, c.failed(err)
	}
	return names, stat, nil
}

// get reads a node. One that is not there has a nil stat.
func (c *call) get(path string) ([]byte, *zk.Stat, error) {
	if err := c.over(); err != nil {
		return nil, nil, err
	}
	data, stat, err := c.conn.Get(path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil, nil
	case err != nil:
		return nil, nil, c.failed(err)
	}
	return data, stat, nil
}

// catchUp makes the server that this connection is on show everything that was done
// before. It is a transaction that changes nothing. ZooKeeper's own sync is cheaper and
// not enough: the leader answers it from what it has applied itself, which may be less
// than what a majority has agreed to and sent to others.
func (c *call) catchUp(s *Store) error {
	wrote := c.wrote
	_, _, _, err := c.multi(&zk.CheckVersionRequest{Path: s.paths.root, Version: -1})
	c.wrote = wrote
	return err
}

// multi makes several changes together or none. at is the operation that the
// ensemble refused, with its error; -1 if it did them all.
func (c *call) multi(ops ...any) (answers []zk.MultiResponse, at int, refusal error, err error) {
	if err := c.over(); err != nil {
		return nil, -1, nil, err
	}
	answers, err = c.conn.Multi(ops...)
	for i, a := range answers {
		// The other operations of a refused list have another code.
		if errors.Is(a.Error, zk.ErrNoNode) || errors.Is(a.Error, zk.ErrNodeExists) || errors.Is(a.Error, zk.ErrBadVersion) {
			return answers, i, a.Error, nil
		}
	}
	if err != nil {
		return nil, -1, nil, c.failed(err)
	}
	c.did()
	return answers, -1, nil, nil
}

// did notes that a majority has done something for the session. It is then given up
// later, in the ensemble as here; what the core may trust does not change, see pulse.
func (c *call) did() {
	c.wrote = true
	if c.session != nil {
		c.session.kept()
	}
}

// remove deletes a node, and reports whether it was there.
func (c *call) remove(path string) (bool, error) {
	if err := c.over(); err != nil {
		return false, err
	}
	switch err := c.conn.Delete(path, -1); {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case err != nil:
		return false, c.failed(err)
	}
	c.did()
	return true, nil
}

// make creates a node that stays. It need not be the first to do so.
func (c *call) make(path string, acl []zk.ACL) error {
	if err := c.over(); err != nil {
		return err
	}
	_, err := c.conn.Create(path, nil, zk.FlagPersistent, acl)
	if err = c.unlessThere(path, err); err != nil {
		return c.failed(err)
	}
	return nil
}

// unlessThere returns the error of a creation, or nil if the node is there. The ensemble denies the
// creation of a node that is there to a user that may not create nodes beside it.
func (c *call) unlessThere(path string, err error) error {
	if errors.Is(err, zk.ErrNoAuth) {
		if there, _, failed := c.conn.Exists(path); there && failed == nil {
			return nil
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// makeLock creates the node of a lock, and what is above it. It is a container: the
// ensemble removes it some time after its last claim has gone.
func (n nativeLayout) makeLock(c *call, s *Store, name string) error {
	bucket := n.bucket(bucketOf(name))
	return c.makeNode(s, n.lock(name), true, func() error { return c.makeAbove(s, bucket) })
}

// makeLock creates the node of a lock as Curator does: every node that is missing is a container.
func (k *Curator) makeLock(c *call, s *Store, name string) error {
	path := k.lock(name)
	return c.makeNode(s, path, !k.Persistent, func() error {
		for i := 1; i < len(path); i++ {
			if path[i] == '/' {
				// One that has been removed since is made by the next try.
				if err := c.create(s, path[:i], !k.Persistent); err != nil && !errors.Is(err, zk.ErrNoNode) {
					return c.failed(err)
				}
			}
		}
		return nil
	})
}

// makeNode creates a node unless it is there, and with above what is missing above it.
func (c *call) makeNode(s *Store, path string, container bool, above func() error) error {
	for range makeTries {
		if err := c.over(); err != nil {
			return err
		}
		err := c.create(s, path, container)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return c.failed(err)
		}
		if err := above(); err != nil {
			return err
		}
	}
	return c.errorf("what is above %s keeps disappearing: %w", path, driver.ErrUnavailable)
}

// makeTries is how often a node is made: the ensemble may remove an empty container above it in
// between.
const makeTries = 5

// create creates a node without data, unless it is there. Its data is empty and not null, as
// Curator's is: Java code reads it.
func (c *call) create(s *Store, path string, container bool) error {
	var err error
	if container {
		_, err = c.conn.CreateContainer(path, []byte{}, zk.FlagContainer, s.acl)
	} else {
		_, err = c.conn.Create(path, []byte{}, zk.FlagPersistent, s.acl)
	}
	return c.unlessThere(path, err)
}

// makeAbove creates a node and those above it.
func (c *call) makeAbove(s *Store, path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			if err := c.make(path[:i], s.acl); err != nil {
				return err
			}
		}
	}
	return c.make(path, s.acl)
}
