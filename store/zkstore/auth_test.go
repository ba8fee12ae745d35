// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// lockOnce acquires a lock and gives it back.
func lockOnce(t *testing.T, ctx context.Context, store *zkstore.Store) {
	t.Helper()
	locks, err := fencelock.New(store, &fencelock.Options{TTL: 5 * time.Second})
	must.OK(t, err)
	if _, err := locks.Mutex("x").Lock(ctx); err != nil {
		t.Error(err)
	}
	if err := locks.Close(ctx); err != nil {
		t.Error(err)
	}
}

func newStore(t *testing.T, e *servers.Ensemble, auth string) *zkstore.Store {
	t.Helper()
	store, err := zkstore.New(e.Addrs(), &zkstore.Options{TickTime: servers.TickTime, MaxTTL: 20 * time.Second, Auth: auth})
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func openSession(ctx context.Context, store *zkstore.Store) (driver.Session, error) {
	s, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 5 * time.Second})
	return s, err
}

// TestAuthenticationIsRequired: an ensemble that wants an authentication which the store does
// not have rejects it with a definite error that says so. Before, the outcome was unknown, and
// the core tried for as long as it was allowed to.
func TestAuthenticationIsRequired(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	jaas := filepath.Join(t.TempDir(), "jaas")
	const login = "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"secret\"; };\n"
	must.OK(t, os.WriteFile(jaas, []byte(login), 0o600))
	for name, c := range map[string]struct {
		lines []string
		let   string // the user who may
	}{
		"SASL": {lines: []string{"sessionRequireClientSASLAuth=true",
			"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "-Djava.security.auth.login.config=" + jaas}},
		"digest": {let: "ann:secret", lines: []string{"enforce.auth.enabled=true", "enforce.auth.schemes=digest"}},
	} {
		e := servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeperWith(1, c.lines...) })
		for _, auth := range []string{"", "ann:secret"} {
			store := newStore(t, e, auth)
			if auth != "" && auth == c.let {
				lockOnce(t, ctx, store)
				continue
			}
			_, err1 := openSession(ctx, store)
			_, err2 := store.Inspect(ctx, "x")
			for _, err := range []error{err1, err2} {
				if err == nil || !strings.Contains(err.Error(), "SASL is not supported") ||
					errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("%s as %q: got %v, want a definite error that names SASL", name, auth, err)
				}
			}
		}
	}
}

// TestOtherUserIsDenied: with another password, or without one, every call fails with an error
// that names the user and decides nothing else; the session of the right user is not touched.
func TestOtherUserIsDenied(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e := start(t, 1)
	ann := newStore(t, e, "ann:secret")
	s, err := openSession(ctx, ann)
	must.OK(t, err)
	claim := &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}, Queue: true}
	out, err := s.Attempt(ctx, claim)
	if err != nil || out.State != driver.Granted {
		t.Fatalf("ann: %v, %v", out.State, err)
	}
	for _, auth := range []string{"", "ann:guess", "bob:secret"} {
		other := newStore(t, e, auth)
		_, err1 := openSession(ctx, other)
		_, err2 := other.Inspect(ctx, "x")
		_, err3 := other.Break(ctx, "x", out.Token)
		_, err4 := other.List(ctx, driver.ListQuery{Max: 10})
		for i, err := range []error{err1, err2, err3, err4, other.SetLimit(ctx, "x", 2)} {
			if err == nil || !strings.Contains(err.Error(), "denies this user access") || strings.Contains(err.Error(), "guess") {
				t.Errorf("call %d as %q: got %v, want an error about access without the password", i, auth, err)
			}
		}
	}
	if st, err := ann.Inspect(ctx, "x"); err != nil || len(st.Holders) != 1 {
		t.Errorf("after the others tried: %+v, %v", st, err)
	}
}

// TestUserSurvivesARestart: a session of a user goes on after the servers were restarted: it
// authenticates on every new connection.
func TestUserSurvivesARestart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e := start(t, 1)
	store := newStore(t, e, "ann:secret")
	s, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 20 * time.Second})
	must.OK(t, err)
	if _, err := store.Inspect(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	e.Servers[0].Kill()
	must.OK(t, e.Servers[0].Start())
	_, err = s.KeepAlive(ctx)
	for ctx.Err() == nil && errors.Is(err, driver.ErrUnavailable) { // it answers others already; the client connects by and by
		_, err = s.KeepAlive(ctx)
	}
	must.OK(t, err)
	out, err := s.Attempt(ctx, &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}, Queue: true})
	if err != nil || out.State != driver.Granted {
		t.Errorf("after the restart: %v, %v", out.State, err)
	}
	if st, err := store.Inspect(ctx, "x"); err != nil || len(st.Holders) != 1 {
		t.Errorf("Inspect after the restart: %+v, %v", st, err)
	}
}
