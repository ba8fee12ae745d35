// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/zktest"
	"github.com/fencelock/fencelock/zkstore"
)

func TestBadOptionsAreErrors(t *testing.T) {
	good := []string{"a:1"}
	for want, f := range map[string]func() (*zkstore.Store, error){
		"needs the servers": func() (*zkstore.Store, error) { return zkstore.New(nil, nil) },
		"host:port":         func() (*zkstore.Store, error) { return zkstore.New([]string{"a"}, nil) },
		"Options.Root":      func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{Root: "a//b"}) },
		"Options.TickTime":  func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{TickTime: 2}) },
		"in order":          func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{MaxTTL: time.Second}) },
		"user:password":     func() (*zkstore.Store, error) { return zkstore.New(good, &zkstore.Options{Auth: "secret"}) },
		"begin with zk://":  func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "redis://a:secret@b", nil) },
		"before @":          func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://secret@b", nil) },
		"a host is missing": func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://a:secret@", nil) },
		"unknown parameter": func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://a?ttl=1s", nil) },
		"write 500ms or 2s": func() (*zkstore.Store, error) { return zkstore.Open(t.Context(), "zk://a?tick_time=2", nil) },
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
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(t.Context())
	l, err := locks.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st, err := locks.Inspect(t.Context(), "x"); err != nil || len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
		t.Errorf("Inspect shows %+v, %v; want the holder with token %v", st, err, l.Token())
	}
	conn, _, err := zk.Connect(e.Addrs(), 5*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
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
	store, err := zkstore.New([]string{addr}, &zkstore.Options{TickTime: zktest.TickTime})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, _, err = store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second})
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// TestClosedStoreAnswers: what is asked of a closed store is answered, and at once.
func TestClosedStoreAnswers(t *testing.T) {
	e := start(t, 1)
	store, err := zkstore.New(e.Addrs(), &zkstore.Options{TickTime: zktest.TickTime})
	if err != nil {
		t.Fatal(err)
	}
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
	if err := <-asked; !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("got %v, want ErrUnavailable or ErrUnknown", err)
	}
	if _, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("open: got %v, want ErrUnavailable", err)
	}
}

// TestHoldsAreRefused: ZooKeeper does not tell its time, so what needs it is refused.
func TestHoldsAreRefused(t *testing.T) {
	store, err := zkstore.New([]string{"127.0.0.1:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks.Mutex("x", fencelock.MaxHold(time.Second)).Lock(t.Context()); !errors.Is(err, fencelock.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}
