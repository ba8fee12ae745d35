// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// anOpen opens a session for a while, and returns it with the error.
func anOpen(t *testing.T, s Store) (driver.Session, error) {
	t.Helper()
	ttl := min(5*time.Second, s.Caps().MaxTTL) // a busy machine stands still for some of it
	d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: ttl})
	return d, err
}

// secret is the password of a user.
const secret = "s3cret"

// aclLine is the line of docs/redis.md.
func aclLine(t testing.TB) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{})
	defer client.Close() // it never connected
	store, err := newGoRedis(client, nil)
	must.OK(t, err)
	return store.ACL("locks")
}

// startWithUser starts a server with the user that the store asks for, with or
// without more rules, and returns how to log in as it.
func startWithUser(t testing.TB, flavor redistest.Flavor, rules ...string) (*redistest.Server, login) {
	t.Helper()
	args := append([]string{"--user"}, strings.Fields(aclLine(t)+" >"+secret)...)
	server := flavor.Start(t, append(args, rules...)...)
	return server, login{Addr: server.Addr, User: "locks", Pass: secret}
}

// wantFindings fails unless a check finds exactly these.
func wantFindings(t *testing.T, s Store, want ...string) {
	t.Helper()
	if findings, err := s.Check(t.Context()); err != nil || !slices.Equal(codes(findings), want) {
		t.Errorf("check: got %v, %v, want %v", findings, err, want)
	}
}

func codes(findings []driver.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Code)
	}
	return all
}
