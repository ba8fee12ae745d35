// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/redis/go-redis/v9"
)

// Redis is one Redis server, running or not.
type Redis struct {
	*Wrapped
	server *servers.RedisServer
	disk   string // where its small disk is, empty if it has none
}

// StartRedis starts a server that writes every command to its log of commands
// (fsync each second), with more arguments if given.
func StartRedis(w fault.Wants, args ...string) (*Redis, error) {
	s, err := servers.Redis.New(append([]string{"--appendonly", "yes", "--appendfsync", "everysec", "--protected-mode", "no"}, args...)...)
	if err != nil {
		return nil, err
	}
	r := &Redis{Wrapped: Wrap(s.Server), server: s}
	if w.Disk {
		err = r.small()
	}
	if err == nil {
		err = s.KeepRole()
	}
	if w.Clock && err == nil {
		var c *servers.Clock
		c, err = servers.RedisClock()
		r.UseClock(c)
	}
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// StartSentinel starts a sentinel that watches a master called name and promotes
// a replica when it has been silent for as long as down says, if two agree.
func StartSentinel(name string, master *Redis, down time.Duration) (*Redis, error) {
	s, err := servers.Redis.StartSentinel(name, master.Port, down)
	if err != nil {
		return nil, err
	}
	return &Redis{Wrapped: Wrap(s.Server), server: s}, nil
}

// Node returns the server as package servers knows it.
func (r *Redis) Node() *servers.RedisServer { return r.server }

// Stop implements Server.
func (r *Redis) Stop() {
	r.Kill()
	if r.disk != "" {
		_ = unmount(r.disk)
	}
	r.Wrapped.Stop()
}

// Wipe implements Wiper.
func (r *Redis) Wipe() error { return r.server.Wipe() }

// Snapshot copies the data of a server, running or not. The function it returns
// puts the copy in the place of the data; the server must not run then.
func (r *Redis) Snapshot() (restore func() error, err error) {
	copied, err := os.MkdirTemp("", "torture-copy")
	if err != nil {
		return nil, err
	}
	const data = "appendonlydir"
	if err := os.CopyFS(filepath.Join(copied, data), os.DirFS(filepath.Join(r.Dir(), data))); err != nil {
		return nil, errors.Join(err, os.RemoveAll(copied))
	}
	return func() error {
		return errors.Join(r.Wipe(), os.CopyFS(filepath.Join(r.Dir(), data), os.DirFS(filepath.Join(copied, data))), os.RemoveAll(copied))
	}, nil
}

// Now returns the time of day of the server.
func (r *Redis) Now(ctx context.Context) (time.Time, error) {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true})
	defer c.Close()
	return c.Time(ctx).Result()
}

// Refuses reports whether the server has no room for a write, in memory or on its disk. A
// script that may write is refused then before it begins, whichever slots the server
// has; this one writes nothing.
func (r *Redis) Refuses(ctx context.Context) (bool, error) {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	err := c.Eval(ctx, "#!lua\nreturn 1", nil).Err()
	if err == nil {
		return false, nil
	}
	return strings.HasPrefix(err.Error(), "OOM ") || strings.HasPrefix(err.Error(), "MISCONF "), err
}

// FillDisk leaves nothing free on the small disk of the server, until the function that it
// returns is called. It also fills the last page of the log of commands, which
// would have room for some more, by a library of functions that is mostly a remark.
// Unlike a key it belongs to no slot.
func (r *Redis) FillDisk() (empty func() error, err error) {
	empty, err = r.ballast()
	if err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	code := "#!lua name=torture\n--" + strings.Repeat("x", 8<<10) + "\nredis.register_function('torture', function() return 1 end)"
	if err := c.FunctionLoadReplace(context.Background(), code).Err(); err != nil && !strings.HasPrefix(err.Error(), "MISCONF ") {
		return nil, errors.Join(err, empty())
	}
	return empty, nil
}

// cutPush ends the connections that wait for messages, but for those of sentinels. A
// sentinel that has none counts the master as silent: cut a few times in a row it
// would have another one take over.
func cutPush(ctx context.Context, c *redis.Client) error {
	list, err := c.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if id, ok := idOf(line); ok {
			if err := c.ClientKillByFilter(ctx, "ID", id).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// idOf reads the number of a connection from a line of CLIENT LIST; not ok for one of
// a sentinel.
func idOf(line string) (id string, ok bool) {
	for _, f := range strings.Fields(line) {
		if strings.HasPrefix(f, "name=sentinel-") {
			return "", false
		}
		if n, found := strings.CutPrefix(f, "id="); found {
			id = n
		}
	}
	return id, id != ""
}

// Do implements Commander.
func (r *Redis) Do(ctx context.Context, v fault.Verb) error {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true})
	defer c.Close()
	switch v {
	case fault.Flush:
		return c.FlushAll(ctx).Err()
	case fault.FlushScripts:
		return c.ScriptFlush(ctx).Err()
	case fault.CutPush:
		return cutPush(ctx, c)
	case fault.Fill:
		return c.ConfigSet(ctx, "maxmemory", "1").Err()
	case fault.Drain:
		return c.ConfigSet(ctx, "maxmemory", "0").Err()
	}
	return fmt.Errorf("a Redis server cannot be harmed by %q", v)
}
