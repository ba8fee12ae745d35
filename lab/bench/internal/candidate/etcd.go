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
		return newOurs(store, func() { _ = client.Close() })
	}),
}

// openEtcd opens lockers, each with its own client.
func openEtcd(one func(*clientv3.Client) (Locker, error)) func(context.Context, Place, int) ([]Locker, error) {
	return each(func(_ context.Context, addr string) (Locker, error) {
		client, err := newEtcd(addr)
		if err != nil {
			return nil, err
		}
		l, err := one(client)
		if err != nil {
			_ = client.Close()
		}
		return l, err
	})
}

type bareEtcd struct{ client *clientv3.Client }

// Lock implements Locker.
func (b *bareEtcd) Lock(ctx context.Context, name string) (Held, error) {
	answer, err := b.client.Txn(context.WithoutCancel(ctx)).If(clientv3.Compare(clientv3.CreateRevision(name), "=", 0)).
		Then(clientv3.OpPut(name, nextValue())).Commit()
	if err == nil && !answer.Succeeded {
		err = errTaken
	}
	if err != nil {
		return nil, err
	}
	return &etcdKey{b.client, name, answer.Header.Revision}, nil
}

// etcdKey is a key that was written at a revision.
type etcdKey struct {
	client   *clientv3.Client
	name     string
	revision int64
}

// Unlock implements Held.
func (k *etcdKey) Unlock(ctx context.Context) error {
	answer, err := k.client.Txn(context.WithoutCancel(ctx)).If(clientv3.Compare(clientv3.ModRevision(k.name), "=", k.revision)).
		Then(clientv3.OpDelete(k.name)).Commit()
	if err == nil && !answer.Succeeded {
		err = errGone
	}
	return err
}

// Close implements Locker.
func (b *bareEtcd) Close() { _ = b.client.Close() }

type etcdRecipe struct {
	client  *clientv3.Client
	session *concurrency.Session
}

// Lock implements Locker. Two goroutines must not ask for one name: the recipe gives
// it to both, because they share the session.
func (e *etcdRecipe) Lock(ctx context.Context, name string) (Held, error) {
	mu := concurrency.NewMutex(e.session, "recipe/"+name)
	return etcdMutex{mu}, mu.Lock(ctx)
}

type etcdMutex struct{ *concurrency.Mutex }

// Unlock implements Held.
func (m etcdMutex) Unlock(ctx context.Context) error {
	return m.Mutex.Unlock(context.WithoutCancel(ctx))
}

// Close implements Locker.
func (e *etcdRecipe) Close() {
	_ = e.session.Close()
	_ = e.client.Close()
}
