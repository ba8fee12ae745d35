// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock/store/etcdstore"
)

func newEtcd(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
}

// BareEtcd is what every lock on etcd at least does: a transaction that writes a
// key if it is not there, and one that deletes it if it is the one that was written.
var BareEtcd = &Candidate{
	Name: "bare-etcd", Server: "etcd", Settings: "a transaction to write a key, one to delete it; no waiting, no lease",
	Open: openEtcd(func(client *clientv3.Client) (Locker, error) { return &bareEtcd{client}, nil }),
}

// EtcdRecipe is the lock that comes with etcd's client.
var EtcdRecipe = &Candidate{
	Name: "etcd-concurrency", Server: "etcd", Bare: "bare-etcd", Settings: "concurrency.Mutex on a session with a TTL of 15 s", Waits: true,
	Open: openEtcd(func(client *clientv3.Client) (Locker, error) {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(15))
		return &etcdRecipe{client, session}, err
	}),
}

// FencelockEtcd is fencelock on etcdstore.
var FencelockEtcd = &Candidate{
	Name: "fencelock-etcd", Server: "etcd", Bare: "bare-etcd", Settings: "defaults: TTL 15 s", Waits: true,
	Open: openEtcd(func(client *clientv3.Client) (Locker, error) {
		store, err := etcdstore.New(client, nil)
		if err != nil {
			return nil, err
		}
		lockers, err := openOurs(store, 1, func() { _ = client.Close() })
		if err != nil {
			return nil, err
		}
		return lockers[0], nil
	}),
}

// openEtcd opens n lockers, each with its own client, as a process has.
func openEtcd(one func(*clientv3.Client) (Locker, error)) func(context.Context, Place, int) ([]Locker, error) {
	return func(_ context.Context, at Place, n int) ([]Locker, error) {
		var lockers []Locker
		for range n {
			client, err := newEtcd(at.Addr)
			if err != nil {
				closeAll(lockers)
				return nil, err
			}
			l, err := one(client)
			if err != nil {
				_ = client.Close()
				closeAll(lockers)
				return nil, err
			}
			lockers = append(lockers, l)
		}
		return lockers, nil
	}
}

type bareEtcd struct{ client *clientv3.Client }

// take writes the key and returns the revision it was written at.
func (b *bareEtcd) take(ctx context.Context, name string) (int64, error) {
	answer, err := b.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(name), "=", 0)).
		Then(clientv3.OpPut(name, nextValue())).Commit()
	if err == nil && !answer.Succeeded {
		err = errTaken
	}
	if err != nil {
		return 0, err
	}
	return answer.Header.Revision, nil
}

// Do implements Locker.
func (b *bareEtcd) Do(ctx context.Context, name string, section func()) error {
	ctx = context.WithoutCancel(ctx)
	revision, err := b.take(ctx, name)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	answer, err := b.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(name), "=", revision)).
		Then(clientv3.OpDelete(name)).Commit()
	if err == nil && !answer.Succeeded {
		err = errGone
	}
	return err
}

// Hold implements Locker.
func (b *bareEtcd) Hold(ctx context.Context, name string) error {
	_, err := b.take(context.WithoutCancel(ctx), name)
	return err
}

// Close implements Locker.
func (b *bareEtcd) Close() { _ = b.client.Close() }

type etcdRecipe struct {
	client  *clientv3.Client
	session *concurrency.Session
}

// Do implements Locker. Two goroutines must not ask for one name: the recipe gives
// it to both, because they share the session.
func (e *etcdRecipe) Do(ctx context.Context, name string, section func()) error {
	mu := concurrency.NewMutex(e.session, "recipe/"+name)
	if err := mu.Lock(ctx); err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return mu.Unlock(context.WithoutCancel(ctx))
}

// Hold implements Locker.
func (e *etcdRecipe) Hold(ctx context.Context, name string) error {
	return concurrency.NewMutex(e.session, "recipe/"+name).Lock(ctx)
}

// Close implements Locker.
func (e *etcdRecipe) Close() {
	_ = e.session.Close()
	_ = e.client.Close()
}
