// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"strings"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Abandon closes a client, and leaves it to close by itself when ctx ends: a client of
// Sentinel does not close before a dial under way is over.
func Abandon(ctx context.Context, client redis.UniversalClient) {
	_, _ = rediscmd.Within(ctx, func() (struct{}, error) { return struct{}{}, client.Close() })
}

// answers asks the server whether it is there.
func answers(ctx context.Context, client redis.UniversalClient) error {
	_, err := rediscmd.Within(ctx, func() (string, error) {
		pong, err := client.Ping(ctx).Result()
		return pong, Classify(ctx, err)
	})
	return err
}

// Client makes the client for a target. It does no I/O.
func (t *Target) Client() redis.UniversalClient {
	switch t.Kind {
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: t.Master, SentinelAddrs: t.Hosts, Username: t.User.Username(), Password: t.Pass, DB: t.DB,
			SentinelUsername: t.Sentinel.User, SentinelPassword: t.Sentinel.Pass,
			ClientName: t.ClientName, TLSConfig: t.TLS, DialTimeout: t.Dial, ReadTimeout: t.Read,
			PoolSize: t.PoolSize, PipelinePoolSize: onePool, ContextTimeoutEnabled: true,
		})
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.Hosts, Username: t.User.Username(), Password: t.Pass,
			ClientName: t.ClientName, TLSConfig: t.TLS, DialTimeout: t.Dial, ReadTimeout: t.Read,
			PoolSize: t.PoolSize, PipelinePoolSize: onePool, ContextTimeoutEnabled: true, MaintNotificationsConfig: noHandoff(),
		})
	}
	return t.ClientOf(t.Hosts[0])
}

// ClientOf is Client for one of several servers.
func (t *Target) ClientOf(addr string) redis.UniversalClient {
	return redis.NewClient(&redis.Options{
		Addr: addr, Username: t.User.Username(), Password: t.Pass, DB: t.DB,
		ClientName: t.ClientName, TLSConfig: t.TLS, DialTimeout: t.Dial, ReadTimeout: t.Read,
		PoolSize: t.PoolSize, PipelinePoolSize: onePool, ContextTimeoutEnabled: true, MaintNotificationsConfig: noHandoff(),
	})
}

// noHandoff turns off that a server moves a connection to another server: the proof of a
// server's run id needs connections that end with the server (Client.Prove).
func noHandoff() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// onePool makes pipelines use the connections of all other calls. By default go-redis has a second pool of ten
// connections with 256 KB each for them, which pool_size does not count: a process would have about twice the
// connections, on each server of a quorum.
const onePool = -1

// Connect makes the client for a target and asks the server whether it is there.
func (t *Target) Connect(ctx context.Context) (redis.UniversalClient, error) {
	client := t.Client()
	if err := answers(ctx, client); err != nil {
		Abandon(ctx, client)
		return nil, t.Silent(ctx, err)
	}
	return client, nil
}

// Silent is the error of servers that do not answer, with what is probably wrong with the URL.
func (t *Target) Silent(ctx context.Context, err error) error {
	return t.Errorf("open %s: %w", strings.Join(t.Hosts, ","), t.hint(ctx, err))
}
