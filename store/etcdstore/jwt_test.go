// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// jwtFlags are the flags of a server whose users get JWTs that last for 4 seconds.
func jwtFlags(t *testing.T) []string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must.OK(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"private": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}, "public": {Type: "PUBLIC KEY", Bytes: pub},
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return []string{"--auth-token", "jwt,pub-key=" + filepath.Join(dir, "public") + ",priv-key=" + filepath.Join(dir, "private") + ",sign-method=RS256,ttl=4s"}
}

// TestJWTEnds: when the token of a process ends it goes on, on 3.5 and later. Before 3.5 it
// cannot, and Check says so.
func TestJWTEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1, jwtFlags(t)...)
	withUsers(t, ctx, cluster)
	client, _ := asAnn(t, cluster)
	s := session(t, ctx, client)
	status, err := client.Status(ctx, cluster.Addrs()[0])
	must.OK(t, err)
	fresh, _ := asAnn(t, cluster)
	store, err := etcdstore.New(fresh, &etcdstore.Options{Namespace: "orders"})
	must.OK(t, err)
	old := strings.HasPrefix(status.Version, "3.4.")
	found, err := store.Check(ctx)
	must.OK(t, err)
	if got := slices.ContainsFunc(found, func(f driver.Finding) bool { return f.Code == "jwt" && f.Severity == driver.Danger }); got != old {
		t.Errorf("Check of %s found %v, want the code jwt: %t", status.Version, found, old)
	}
	<-time.After(5500 * time.Millisecond)                   // the token has ended
	bounded, end := context.WithTimeout(ctx, 5*time.Second) // an old one is tried until the end
	defer end()
	if _, err := s.KeepAlive(bounded); (err != nil) != old {
		t.Errorf("a keep-alive of %s with a token that has ended: %v", status.Version, err)
	}
}
