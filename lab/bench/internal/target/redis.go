// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/child"
)

// Redis is a running redis-server.
type Redis struct {
	*servers.RedisServer
	admin *redis.Client
}

// StartRedis starts a server without persistence. The caller stops it.
func StartRedis(context.Context) (Server, error) { return startRedis(servers.Redis) }

// StartValkey is StartRedis for Valkey.
func StartValkey(context.Context) (Server, error) { return startRedis(servers.Valkey) }

func startRedis(flavor servers.Flavor) (Server, error) {
	s, err := flavor.Start("--maxclients", "20000")
	if err != nil {
		return nil, err
	}
	if err := child.Move(s.PID()); err != nil {
		s.Stop()
		return nil, err
	}
	return &Redis{s, redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 1, ContextTimeoutEnabled: true, DisableIdentity: true})}, nil
}

// Addr implements Server.
func (r *Redis) Addr() string { return r.RedisServer.Addr }

// Version implements Server.
func (r *Redis) Version(ctx context.Context) (string, error) {
	v, err := r.text(ctx, "server", "redis_version")
	return "Redis " + v, err
}

// Stop implements Server.
func (r *Redis) Stop() {
	_ = r.admin.Close()
	r.RedisServer.Stop()
}

// ResetStats implements Server.
func (r *Redis) ResetStats(ctx context.Context) error { return r.admin.ConfigResetStat(ctx).Err() }

// Stats implements Server.
func (r *Redis) Stats(ctx context.Context) (Stats, error) {
	text, err := r.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	return ParseStats(text)
}

// number returns a number of INFO.
func (r *Redis) number(ctx context.Context, section, field string) (float64, error) {
	text, err := r.text(ctx, section, field)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// text returns a value of INFO.
func (r *Redis) text(ctx context.Context, section, field string) (string, error) {
	text, err := r.admin.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("INFO %s of %s has no %s", section, r.Addr(), field)
}

// Memory implements Server.
func (r *Redis) Memory(ctx context.Context) (float64, error) {
	return r.number(ctx, "memory", "used_memory")
}

// Data is Memory without the buffers of connections, which grow and shrink.
func (r *Redis) Data(ctx context.Context) (float64, error) {
	all, err := r.Memory(ctx)
	if err != nil {
		return 0, err
	}
	clients, err := r.number(ctx, "memory", "mem_clients_normal")
	return all - clients, err
}

// CPU implements Server: as the scheduler counts it, or as INFO does where the scheduler
// does not report it.
func (r *Redis) CPU(ctx context.Context) (float64, error) {
	if ran, err := processTime(r.PID()); !errors.Is(err, os.ErrNotExist) {
		return ran, err
	}
	user, err := r.number(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	system, err := r.number(ctx, "cpu", "used_cpu_sys")
	return user + system, err
}
