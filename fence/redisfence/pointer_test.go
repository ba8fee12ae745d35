// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/filefence"
	"github.com/fencelock/fencelock/fence/redisfence"
	"github.com/fencelock/fencelock/internal/servers"
)

// pointer keeps the name of the current version of a folder in Redis, for files
// that several hosts share.
type pointer struct {
	client redis.UniversalClient
	guard  *redisfence.Guard
	key    string
}

var _ filefence.Pointer = pointer{}

func newPointer(client redis.UniversalClient, key, lock string) (pointer, error) {
	guard, err := redisfence.New(client, key, lock)
	return pointer{client, guard, key}, err
}

// Enter implements filefence.Pointer.
func (p pointer) Enter(ctx context.Context) (string, error) {
	name, err := p.guard.Run(ctx, redisfence.NewScript(`return redis.call('GET', KEYS[1])`), []string{p.key})
	text, _ := name.(string) // nil at first
	return text, err
}

// Set implements filefence.Pointer.
func (p pointer) Set(ctx context.Context, name string) error {
	_, err := p.guard.Run(ctx, redisfence.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`), []string{p.key}, name)
	return err
}

// Get implements filefence.Pointer.
func (p pointer) Get(ctx context.Context) (string, error) {
	name, err := p.client.Get(ctx, p.key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return name, err
}

// files is a folder of versions behind that pointer.
func files(client redis.UniversalClient, path, lock string) (*fencetest.Value, error) {
	p, err := newPointer(client, lock, lock)
	if err != nil {
		return nil, err
	}
	d, err := filefence.New(path, lock, p)
	if err != nil {
		return nil, err
	}
	load := func(folder string, err error) (string, error) {
		if err != nil || folder == "" {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(folder, "v"))
		return string(text), err
	}
	return &fencetest.Value{
		Enter: func(ctx context.Context) (string, error) { return load(d.Enter(ctx)) },
		Read:  func(ctx context.Context) (string, error) { return load(d.Current(ctx)) },
		Write: func(ctx context.Context, value string) error {
			return d.Publish(ctx, func(folder string) error {
				return os.WriteFile(filepath.Join(folder, "v"), []byte(value), 0o600)
			})
		},
	}, nil
}

// TestFilesBehindTheGuard: a refusal removes the version, so a lost reply must
// not become one.
func TestFilesBehindTheGuard(t *testing.T) {
	server := start(t, servers.Redis, "--appendonly", "yes", "--appendfsync", "always")
	client, second := connect(t, server.Addr), connect(t, server.Addr)
	fencetest.Run(t, &fencetest.Harness{Name: "files behind Redis",
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			path := t.TempDir()
			v, err := files(client, path, lock)
			if err != nil {
				return nil, err
			}
			v.Reopen = func(context.Context) (*fencetest.Value, error) { return files(second, path, lock) }
			v.LoseReply = func(ctx context.Context, value string) error {
				var d fencetest.Dialer
				lossy := at(server.Addr)(d.DialContext)
				defer lossy.Close()
				w, err := files(lossy, path, lock)
				if err != nil {
					return err
				}
				if _, err := w.Enter(ctx); err != nil { // it is connected now
					return err
				}
				d.LoseNextReply(ctx)
				return w.Write(ctx, value)
			}
			return v, nil
		},
		Restart: func(context.Context) error { return server.Restart() },
	})
}
