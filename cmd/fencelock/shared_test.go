// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestSharedFormats: a command excludes the services of other libraries, on one server and on a
// majority of three, and the stores refuse what the formats have not got.
func TestSharedFormats(t *testing.T) {
	t.Parallel()
	var all []*servers.RedisServer
	var addrs []string
	for range 3 {
		s := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
		all, addrs = append(all, s), append(addrs, s.Addr)
	}
	path, err := binary()
	must.OK(t, err)
	for name, tt := range map[string]struct {
		url   string
		taken []any
		on    []*servers.RedisServer
	}{
		"redisson":   {"redisson://" + addrs[0], []any{"HSET", "taken", "java:1", "1"}, all[:1]},
		"read-write": {"redisson://" + addrs[1] + "?read_write=true", []any{"HSET", "taken", "mode", "write", "java:1:write", "1"}, all[1:2]},
		"setnx":      {"setnx://" + addrs[0] + "?prefix=app:", []any{"SET", "app:taken", "foreign"}, all[:1]},
		"redlock":    {"setnx://" + strings.Join(addrs, ",") + "?prefix=red:", []any{"SET", "red:taken", "foreign"}, all},
	} {
		t.Run(name, func(t *testing.T) {
			p := fencelockCLI(t, tt.url, "run", "a", "--", "sh", "-c", path+" run a --try -- true; exit 3").want(3)
			contains(t, p.err.String(), "is held by")
			for _, s := range tt.on {
				must.OK(t, s.Do(tt.taken...).Err())
			}
			fencelockCLI(t, tt.url, "run", "taken", "--try", "--", "true").want(75)
			contains(t, fencelockCLI(t, tt.url, "run", "b", "--permits=2", "--", "true").want(64).err.String(), "not supported by this store")
			contains(t, fencelockCLI(t, tt.url, "why").want(64).err.String(), "fencelock why LOCK shows one lock")
			contains(t, fencelockCLI(t, tt.url, "why", "taken").want(0).out.String(), "taken: held by 1")
			fencelockCLI(t, tt.url, "run", "a", "--correctness", "--", "true").want(64)
		})
	}
}
