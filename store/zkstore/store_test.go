// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

func TestBadOptionsAreErrors(t *testing.T) {
	good := []string{"a:1"}
	for want, f := range map[string]func() (*zkstore.Store, error){
		"needs the servers": func() (*zkstore.Store, error) { return zkstore.New(nil, nil) },
		"host:port":         func() (*zkstore.Store, error) { return zkstore.New([]string{"a"}, nil) },
		"Options.Namespace": func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{Namespace: "a//b"}) },
		"Options.TickTime":  func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{TickTime: 2}) },
		"in order":          func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{MaxTTL: time.Second}) },
		"user:password":     func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{Auth: "secret"}) },
		"begin with zk://":  func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "redis://a:secret@b", nil) },
		"before @":          func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://secret@b", nil) },
		"after the host":    func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://u:se/secret@b", nil) },
		"a host is missing": func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://a:secret@", nil) },
		"unknown parameter": func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://a?ttl=1s", nil) },
		"tick_time in the URL takes a time with its unit": func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://a?tick_time=2", nil) },
	} {
		_, err := f()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

// TestOpenByURL also shows that what is created belongs to the user.
func TestOpenByURL(t *testing.T) {
	e := start(t, 1)
	url := "zk://ann:secr%40t@" + e.Servers[0].Addr + "/teams/orders?tick_time=200ms&max_ttl=40s"
	store, err := zkstore.Open(t.Context(), url, nil)
	must.OK(t, err)
	defer store.Close()
	locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	must.OK(t, err)
	defer locks.Close(t.Context())
	l, err := locks.Mutex("x").Lock(t.Context())
	must.OK(t, err)
	if st, err := locks.Inspect(t.Context(), "x"); err != nil || len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
		t.Errorf("Inspect shows %+v, %v; want the holder with token %v", st, err, l.Token())
	}
	conn, _, err := zk.Connect(e.Addrs(), 5*time.Second, zk.WithLogInfo(false))
	must.OK(t, err)
	defer conn.Close()
	if _, _, err := conn.Children("/teams/orders/s"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger reads the sessions: %v, want ErrNoAuth", err)
	}
	if _, err := fencelock.New(store, &fencelock.Options{TTL: time.Minute}); err == nil {
		t.Error("a TTL above max_ttl was not refused")
	}
}

func TestOpenWithoutAServer(t *testing.T) {
	e := start(t, 1)
	addr := e.Servers[0].Addr
	e.Stop()
	store, err := zkstore.New([]string{addr}, &zkstore.Options{TickTime: servers.TickTime})
	must.OK(t, err)
	defer store.Close()
	_, _, err = store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second})
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// TestClosedStoreAnswers: what is asked of a closed store is answered, and at once.
func TestClosedStoreAnswers(t *testing.T) {
	e := start(t, 1)
	store, err := zkstore.New(e.Addrs(), &zkstore.Options{TickTime: servers.TickTime})
	must.OK(t, err)
	if _, err := store.Inspect(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	resume := e.Servers[0].Pause() // so that a call is under way when it closes
	defer resume()
	asked := make(chan error, 1)
	go func() {
		_, err := store.Inspect(t.Context(), "x")
		asked <- err
	}()
	store.Close()
	store.Close()
	select {
	case err := <-asked:
		if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
			t.Errorf("got %v, want ErrUnavailable or ErrUnknown", err)
		}
	case <-time.After(patience):
		t.Fatal("a call of a store that was closed did not return")
	}
	if _, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("open: got %v, want ErrUnavailable", err)
	}
}

// TestHoldsAreRefused: ZooKeeper does not report its time, so claims that need it are refused.
func TestHoldsAreRefused(t *testing.T) {
	store, err := zkstore.New([]string{"127.0.0.1:1"}, nil)
	must.OK(t, err)
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	must.OK(t, err)
	if _, err := locks.Mutex("x", fencelock.MaxHold(time.Second)).Lock(t.Context()); !errors.Is(err, fencelock.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

// TestKeepAliveWithoutPermission: a keep-alive that is refused because of an access list
// decides nothing about the session: leases go on until the deadline.
func TestKeepAliveWithoutPermission(t *testing.T) {
	e := start(t, 1)
	store, err := zkstore.New(e.Addrs(), &zkstore.Options{TickTime: servers.TickTime})
	must.OK(t, err)
	defer store.Close()
	id := driver.NewSessionID()
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: store.Caps().MaxTTL})
	must.OK(t, err)
	conn, _, err := zk.Connect(e.Addrs(), 5*time.Second, zk.WithLogInfo(false))
	must.OK(t, err)
	defer conn.Close()
	must.OK(t, conn.AddAuth("digest", []byte("admin:secret")))
	access := func(acl []zk.ACL) {
		t.Helper()
		if _, err := conn.SetACL("/fencelock/s/"+id.String(), acl, -1); err != nil {
			t.Fatal(err)
		}
	}
	access(zk.DigestACL(zk.PermAll, "admin", "secret"))
	if _, err := s.KeepAlive(t.Context()); err == nil || decided(err) || !strings.Contains(err.Error(), "denies this user access") {
		t.Errorf("without permission: %v, want an error that names the cause and ends nothing", err)
	}
	access(zk.WorldACL(zk.PermAll))
	if _, err := s.KeepAlive(t.Context()); err != nil {
		t.Errorf("with the permission again: %v", err)
	}
}

// decided reports whether the core ends a session because of the error.
func decided(err error) bool {
	return errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrReset) || errors.Is(err, driver.ErrRefused)
}

// TestOpenReportsAWrongAddress: where nothing listens, Open does not wait for its context and
// returns the reason.
func TestOpenReportsAWrongAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := zkstore.Open(ctx, "zk://127.0.0.1:1,127.0.0.1:2", nil)
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want an unavailable store and the reason", err)
	}
}
