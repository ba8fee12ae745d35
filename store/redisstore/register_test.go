// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"errors"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestRefusedServerIsOpenedToRead: a server that is refused can be opened to read, but only
// by a caller that asks for it and receives the reason. No session can be opened there.
func TestRefusedServerIsOpenedToRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	url := "redis://" + server.Addr + "?grace=true"
	if s, err := fencelock.OpenStore(t.Context(), url); s != nil || !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v, %v, want a refusal", s, err)
	}
	var reason error
	s, err := driver.OpenStore(t.Context(), url, driver.OpenOptions{Refused: func(err error) { reason = err }, Warn: func(driver.Finding) {}})
	if err != nil || !errors.Is(reason, driver.ErrRefused) {
		t.Fatalf("got %v with the reason %v", err, reason)
	}
	defer s.Close()
	if _, err := s.Inspect(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if err := openSession(t, s); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v for a session, want a refusal", err)
	}
	s, err = fencelock.OpenStore(t.Context(), url+"&accept=eviction")
	must.OK(t, err)
	defer s.Close()
	if err := openSession(t, s); err != nil {
		t.Error(err)
	}
}
