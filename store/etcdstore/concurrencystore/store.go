// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/failure"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	"github.com/fencelock/fencelock/store/etcdstore/internal/share"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options are the settings of a store; nil stands for the defaults.
type Options struct {
	// Prefix starts the name of every lock, as "/locks/". The others must use the same. Default none.
	Prefix string
	// Namespace starts the keys that the others do not read: sessions and tombstones. It must not be
	// a prefix of a lock's name. Default etcdstore.DefaultNamespace.
	Namespace string
	// MaxTTL is the longest TTL of a session. Default etcdstore.DefaultMaxTTL.
	MaxTTL time.Duration
}

// Store is a store on an etcd cluster. Make one with New or Open. It is safe for concurrent use.
type Store struct {
	base   *etcdstore.Store
	client *clientv3.Client
	keys   lock.Space
	prefix string
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.OpenedStore = (*Store)(nil)
	_ driver.Checker     = (*Store)(nil)
)

// New returns a store that uses the client, which stays the caller's. A nil opts is fine. New does no I/O.
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	base, err := etcdstore.New(client, &etcdstore.Options{Namespace: o.Namespace, MaxTTL: o.MaxTTL})
	if err != nil {
		return nil, fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	return over(base, o.Prefix), nil
}

// over returns a store with the sessions of base.
func over(base *etcdstore.Store, prefix string) *Store {
	s := &Store{base: base, prefix: prefix}
	s.client, s.keys = share.Parts(base)
	return s
}

// Close ends what the store runs in the background, and closes the client if the store owns it, which is so
// after Open.
func (s *Store) Close() error { return s.base.Close() }

// Check asks the cluster whether it is fit to keep locks, as etcdstore does.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) { return s.base.Check(ctx) }

// Caps implements driver.Store.
func (s *Store) Caps() driver.Caps {
	c := s.base.Caps()
	c.Wanted, c.Linger, c.Shared, c.Reentry, c.Hold, c.Listing = driver.NoNotice, false, false, false, false, false
	c.Assumes += " Holders with another library have the token of their key's create revision times 16384, or none that a guard could check."
	return c
}

// Shard implements driver.Store.
func (s *Store) Shard(name string) string { return s.base.Shard(name) }

// under is the prefix of the keys of a lock.
func (s *Store) under(name string) string { return s.prefix + name + "/" }

// Open implements driver.Store. A session that was open before finds its claims again.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	req.Wanted = nil
	base, renewal, err := s.base.Open(ctx, req)
	if err != nil {
		return nil, driver.Renewal{}, fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	se := newSession(s, base, req.ID)
	if err := se.load(ctx); err != nil {
		return nil, driver.Renewal{}, s.fail(ctx, "open", err, failure.Writing)
	}
	return se, renewal, nil
}

// Inspect implements driver.Store.
func (s *Store) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, err := s.inspect(ctx, name)
	if err != nil {
		return driver.Status{}, s.fail(ctx, "inspect", err, failure.Reading)
	}
	return st, nil
}

func (s *Store) inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := failure.Before(ctx); err != nil {
		return driver.Status{}, err
	}
	resp, err := s.client.Get(ctx, s.under(name), clientv3.WithPrefix(), byCreation)
	if err != nil {
		return driver.Status{}, err
	}
	st := driver.Status{Name: name}
	now := time.Now()
	for i, e := range contenders(s.under(name), resp.Kvs) {
		switch {
		case i == 0:
			h := e.holder(now)
			if h.EndsIn, err = s.left(ctx, e.lease); err != nil {
				return driver.Status{}, err
			}
			st.Holders = append(st.Holders, h)
		case len(st.Waiters) < driver.MaxWaitersReported:
			st.Waiters = append(st.Waiters, driver.Waiter{Claim: e.id, Weight: 1, Record: e.record, Age: e.age(now)})
			fallthrough
		default:
			st.Waiting++
		}
	}
	return st, nil
}

// byCreation sorts keys by their create revision, which is the order of the queue.
var byCreation = clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)

// left is how long a lease lasts if it is not kept alive again. etcd rounds it down to whole seconds.
func (s *Store) left(ctx context.Context, lease int64) (time.Duration, error) {
	resp, err := s.client.TimeToLive(ctx, clientv3.LeaseID(lease))
	if err != nil && !failure.LeaseMissing(err) {
		return 0, err
	}
	if err != nil || resp.TTL <= 0 {
		return 0, nil
	}
	return time.Duration(min(resp.TTL+1, resp.GrantedTTL)) * time.Second, nil
}

// List implements driver.Store: the keys of locks have no common prefix that is theirs alone.
func (s *Store) List(context.Context, driver.ListQuery) (driver.Page, error) {
	return driver.Page{}, fmt.Errorf("concurrencystore: list: locks of this format cannot be distinguished from other keys; read them with etcdctl get --prefix: %w", driver.ErrUnsupported)
}

// SetLimit implements driver.Store.
func (s *Store) SetLimit(context.Context, string, int64) error {
	return fmt.Errorf("concurrencystore: set limit: this format has no semaphores: %w", driver.ErrUnsupported)
}

// Break implements driver.Store. The fence is between the token of the broken claim and those of all waiters, which have
// their revisions already. A holder with another library is not notified.
func (s *Store) Break(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	fence, err := s.breaks(ctx, name, token)
	if err != nil {
		return 0, s.fail(ctx, "break", err, failure.Writing)
	}
	return fence, nil
}

func (s *Store) breaks(ctx context.Context, name string, token driver.Token) (driver.Token, error) {
	if err := failure.Before(ctx); err != nil {
		return 0, err
	}
	resp, err := s.client.Get(ctx, s.under(name), clientv3.WithPrefix(), byCreation)
	if err != nil {
		return 0, err
	}
	all := contenders(s.under(name), resp.Kvs)
	notHeld := fmt.Errorf("no grant has token %v: %w", token, driver.ErrNotHeld)
	if len(all) == 0 || all[0].token() != token.Base() {
		return 0, notHeld
	}
	e := all[0]
	ops := []clientv3.Op{clientv3.OpDelete(e.key)}
	if e.ours {
		ops = append(ops, clientv3.OpPut(s.keys.Gone(e.id), "", clientv3.WithLease(clientv3.LeaseID(e.lease))),
			clientv3.OpPut(s.keys.Broken(e.id), "", clientv3.WithLease(clientv3.LeaseID(e.lease))))
	}
	done, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.created)).Then(ops...).Commit()
	switch {
	case failure.LeaseMissing(err), err == nil && !done.Succeeded:
		return 0, notHeld // it ended in between
	case err != nil:
		return 0, err
	}
	return lock.Token(e.created, 1), nil
}

func (s *Store) fail(ctx context.Context, op string, err error, k failure.Kind) error {
	return failure.Of(ctx, "concurrencystore", op, err, k)
}

func init() { driver.Register(opener, "etcd-concurrency", "etcds-concurrency") }

// opener is Open for driver.OpenStore.
func opener(ctx context.Context, url string, _ driver.OpenOptions) (driver.OpenedStore, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open connects to the cluster at a URL and returns a store that owns its client: Store.Close closes it. The URL is that of
// etcdstore.Open with another scheme, etcd-concurrency or etcds-concurrency, and one more parameter, prefix, which is
// Options.Prefix:
//
//	etcd-concurrency://one:2379,two:2379?prefix=/locks/
//
// A setting that is in opts, too, must have the same value there.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	scheme, isOurs := strings.CutSuffix(scheme, "-concurrency")
	if !ok || !isOurs {
		return nil, errors.New("concurrencystore: the URL must begin with etcd-concurrency:// or etcds-concurrency:// (it is not shown, it may hold a password)")
	}
	rest, prefix, err := takePrefix(rest)
	if err != nil {
		return nil, err
	}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if prefix != "" {
		if err := storeurl.Part("concurrencystore", "prefix", "Prefix", &o.Prefix, prefix); err != nil {
			return nil, err
		}
	}
	base, err := etcdstore.Open(ctx, scheme+"://"+rest, &etcdstore.Options{Namespace: o.Namespace, MaxTTL: o.MaxTTL})
	if err != nil {
		return nil, fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	return over(base, o.Prefix), nil
}

// takePrefix takes the parameter prefix out of a URL.
func takePrefix(rest string) (without, prefix string, err error) {
	address, query, found := strings.Cut(rest, "?")
	if !found {
		return rest, "", nil
	}
	var others []string
	for part := range strings.SplitSeq(query, "&") {
		text, ours := strings.CutPrefix(part, "prefix=")
		if !ours {
			others = append(others, part)
			continue
		}
		if prefix, err = url.QueryUnescape(text); err != nil {
			return "", "", errors.New("concurrencystore: the prefix in the URL has a % that is not an escape; write %25 for a %")
		}
	}
	if len(others) == 0 {
		return address, prefix, nil
	}
	return address + "?" + strings.Join(others, "&"), prefix, nil
}
