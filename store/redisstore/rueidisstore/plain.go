// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"

	"github.com/fencelock/fencelock/store/redisstore/internal/adapt"
	"github.com/fencelock/fencelock/store/redisstore/internal/liststore"
	"github.com/redis/rueidis"
)

var _ liststore.Client = (*adapter)(nil)

// Exec implements liststore.Commander.
func (a *adapter) Exec(ctx context.Context, _ string, commands [][]string) ([]any, error) {
	return adapt.Within(ctx, func() ([]any, error) {
		replies, err := exec(a.sending(ctx), a.client, commands)
		return replies, classify(ctx, err)
	})
}

// Pipe implements liststore.Commander.
func (a *adapter) Pipe(ctx context.Context, _ string, commands [][]string) ([]any, error) {
	return adapt.Within(ctx, func() ([]any, error) {
		replies, err := pipe(a.sending(ctx), a.client, commands)
		return replies, classify(ctx, err)
	})
}

// Exec implements liststore.Commander.
func (l *ownConn) Exec(ctx context.Context, key string, commands [][]string) ([]any, error) {
	return l.do(ctx, func(ctx context.Context, client rueidis.CoreClient) ([]any, error) {
		return exec(ctx, client, commands)
	},
		func() ([]any, error) { return l.a.Exec(ctx, key, commands) })
}

// Pipe implements liststore.Commander.
func (l *ownConn) Pipe(ctx context.Context, key string, commands [][]string) ([]any, error) {
	return l.do(ctx, func(ctx context.Context, client rueidis.CoreClient) ([]any, error) {
		return pipe(ctx, client, commands)
	},
		func() ([]any, error) { return l.a.Pipe(ctx, key, commands) })
}

// build makes a command whose first argument is its key, but for those that have none.
func build(b rueidis.Builder, c []string) rueidis.Completed {
	if c[0] == "SCRIPT" || c[0] == "TIME" {
		return b.Arbitrary(c...).Build()
	}
	return b.Arbitrary(c[0]).Keys(c[1]).Args(c[2:]...).Build()
}

// exec sends a transaction, once.
func exec(ctx context.Context, client rueidis.CoreClient, commands [][]string) ([]any, error) {
	all := make([]rueidis.Completed, 0, len(commands)+2)
	all = append(all, client.B().Multi().Build())
	for _, c := range commands {
		all = append(all, build(client.B(), c))
	}
	all = append(all, client.B().Exec().Build())
	results := client.DoMulti(ctx, all...)
	for _, r := range results[:len(results)-1] {
		if err := r.Error(); err != nil {
			return nil, err
		}
	}
	v, err := results[len(results)-1].ToAny()
	if err != nil {
		return nil, err
	}
	replies, _ := v.([]any)
	for _, r := range replies {
		if err, ok := r.(error); ok {
			return nil, err
		}
	}
	return replies, nil
}

// pipe sends commands at once.
func pipe(ctx context.Context, client rueidis.CoreClient, commands [][]string) ([]any, error) {
	all := make([]rueidis.Completed, 0, len(commands))
	for _, c := range commands {
		all = append(all, build(client.B(), c))
	}
	replies := make([]any, len(all))
	for i, r := range client.DoMulti(ctx, all...) {
		v, err := r.ToAny()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		replies[i] = v
	}
	return replies, nil
}
