// SPDX-License-Identifier: Apache-2.0

package caddylock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	"github.com/caddyserver/certmagic"
	"github.com/fencelock/fencelock/adapters/caddylock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// shared is one store for all who open it, as a server is.
type shared struct{ driver.Store }

func (shared) Close() error { return nil }

func init() {
	store := memstore.New(nil)
	driver.Register(func(context.Context, string, driver.OpenOptions) (driver.OpenedStore, error) {
		return shared{store}, nil
	}, "shared")
}

// read reads a block of a Caddyfile.
func read(block string) (*caddylock.Storage, error) {
	s := new(caddylock.Storage)
	return s, s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(block))
}

// server is the storage of one Caddy server, as its configuration makes it.
func server(t *testing.T, block string) (certmagic.Storage, error) {
	t.Helper()
	s, err := read(block)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	module, err := ctx.LoadModuleByID("caddy.storage.fencelock", config)
	if err != nil {
		return nil, err
	}
	return module.(caddy.StorageConverter).CertMagicStorage()
}

// TestStorageOfTwoServers: what one server locks is locked for the other, and what one stores
// the other loads.
func TestStorageOfTwoServers(t *testing.T) {
	dir := filepath.ToSlash(t.TempDir())
	t.Setenv("FENCELOCK_URL", "shared://")
	block := fmt.Sprintf("fencelock {\n url {env.FENCELOCK_URL}\n ttl 5s\n prefix certificates/\n storage file_system {\n root %s\n }\n}", dir)
	a, err := server(t, block)
	if err != nil {
		t.Fatal(err)
	}
	b, err := server(t, block)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Lock(t.Context(), "example.com"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.(certmagic.TryLocker).TryLock(t.Context(), "example.com"); got || err != nil {
		t.Errorf("the second server: %v, %v; want the lock held", got, err)
	}
	if err := a.Store(t.Context(), "key", []byte("value")); err != nil {
		t.Error(err)
	}
	if err := a.Unlock(context.Background(), "example.com"); err != nil {
		t.Error(err)
	}
	if err := b.Lock(t.Context(), "example.com"); err != nil {
		t.Error(err)
	}
	if got, err := b.Load(t.Context(), "key"); string(got) != "value" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPageShowsAConfiguration: the storage that the page shows is read as it stands there. lab/caddy starts servers with it,
// but not in CI.
func TestPageShowsAConfiguration(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, begins := strings.Cut(string(text), "```text\n{\n\tstorage ")
	block, _, ends := strings.Cut(block, "\n}\n```")
	if !begins || !ends {
		t.Fatal("the page has no such block; lab/caddy looks for it, too")
	}
	t.Setenv("FENCELOCK_URL", "shared://")
	if _, err := server(t, strings.ReplaceAll(block, "/mnt/certificates", filepath.ToSlash(t.TempDir()))); err != nil {
		t.Error(err)
	}
}

// TestErrorsNameTheOption: what is wrong in a configuration is an error that says what to do.
func TestErrorsNameTheOption(t *testing.T) {
	for block, want := range map[string]string{
		"fencelock extra":                    "wrong argument count",
		"fencelock {\n address x\n}":         "there are url, ttl, prefix and storage",
		"fencelock {\n url\n}":               "wrong argument count",
		"fencelock {\n url a b\n}":           "wrong argument count",
		"fencelock {\n ttl soon\n}":          "ttl",
		"fencelock {\n storage moon {\n}\n}": "caddy.storage.moon",
	} {
		if _, err := read(block); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", block, err, want)
		}
	}
	files := " storage file_system {\n root " + filepath.ToSlash(t.TempDir()) + "\n }\n"
	for block, want := range map[string]string{
		"fencelock {\n" + files + "}":                           "set url",
		"fencelock {\n url {env.NOT_SET}\n" + files + "}":       "set url",
		"fencelock {\n url shared://\n}":                        "name the one that all servers share",
		"fencelock {\n url moon://a\n" + files + "}":            "moon",
		"fencelock {\n url shared://\n ttl 1ns\n" + files + "}": "TTL",
	} {
		if _, err := server(t, block); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", block, err, want)
		}
	}
}
