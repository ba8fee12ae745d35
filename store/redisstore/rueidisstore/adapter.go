// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/adapt"
	"github.com/fencelock/fencelock/store/redisstore/internal/checkedstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/rueidis"
)

// adapter is the store's view of a rueidis client.
//
// rueidis sends a script once: it repeats only what is read-only, or what a node
// of a cluster answered with MOVED or ASK, and did not do. Were that not so, the
// error of a repetition would hide what became of the first.
type adapter struct {
	client  rueidis.Client
	cluster bool
	pool    pool

	abandoned adapt.Abandoned
	texts     adapt.Texts
	listeners adapt.Listeners
}

var _ checkedstore.Client = (*adapter)(nil)

// Sharded implements rediscmd.Client.
func (a *adapter) Sharded() bool { return a.cluster }

// Eval implements rediscmd.Conn.
func (a *adapter) Eval(ctx context.Context, s *rediscmd.Script, keys, args []string) ([]any, error) {
	return adapt.BoundedWithin(ctx, &a.abandoned, func() ([]any, error) {
		reply, err := a.eval(a.sending(ctx), a.client, s, keys, args)
		return reply, classify(ctx, err)
	})
}

// Close implements rediscmd.Conn: the client is the caller's.
func (a *adapter) Close() {}

// eval sends a script. It is carried out once at most.
func (a *adapter) eval(ctx context.Context, client rueidis.CoreClient, s *rediscmd.Script, keys, args []string) ([]any, error) {
	b := client.B()
	bySHA := func() ([]any, error) {
		return list(client.Do(ctx, b.Evalsha().Sha1(s.SHA).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()))
	}
	reply, err := bySHA()
	if !adapt.MissingScript(err) {
		return reply, err
	}
	if s.Text == "" {
		return nil, rediscmd.ErrNoScript
	}
	return a.texts.Send(ctx, s.SHA, bySHA, func() ([]any, error) {
		return list(client.Do(ctx, b.Eval().Script(s.Text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()))
	})
}

// sending returns the context to send a script with. rueidis must not see the deadline:
// when it passes while a call has the connection to itself, rueidis closes the connection,
// and every call that came in the meantime fails with the deadline of another call. On a
// cluster rueidis must see the end of the context, because it follows MOVED until then.
// Elsewhere it must not see even that, because a call that can be canceled takes the slow
// path through the queue of rueidis.
func (a *adapter) sending(ctx context.Context) context.Context {
	if a.cluster {
		return noDeadline{ctx}
	}
	return context.WithoutCancel(ctx)
}

// noDeadline is a context that ends when it should and does not say so before.
type noDeadline struct{ context.Context }

// Deadline implements context.Context.
func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// list reads a reply as a list of strings, numbers and lists; one value is a list of
// one.
func list(result rueidis.RedisResult) ([]any, error) {
	v, err := result.ToAny()
	if err != nil {
		return nil, err
	}
	if l, ok := v.([]any); ok {
		return l, nil
	}
	return []any{v}, nil
}

// Fields implements rediscmd.Client.
func (a *adapter) Fields(ctx context.Context, key string, cursor uint64, pattern string) ([]string, uint64, error) {
	entry, err := adapt.Within(ctx, func() (rueidis.ScanEntry, error) {
		cmd := a.client.B().Hscan().Key(key).Cursor(cursor).Match(pattern).Count(1000).Build()
		entry, err := a.client.Do(noDeadline{ctx}, cmd).AsScanEntry()
		return entry, classify(ctx, err)
	})
	if err != nil {
		return nil, 0, err
	}
	names := make([]string, 0, len(entry.Elements)/2)
	for i := 0; i < len(entry.Elements); i += 2 {
		names = append(names, entry.Elements[i])
	}
	return names, entry.Cursor, nil
}

// classify returns what an error of rueidis means for what was asked. ErrClosing is not
// special: it also ends calls that were in flight.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var answer *rueidis.RedisError
	if errors.As(err, &answer) {
		return adapt.Answered(err)
	}
	return adapt.Failed(ctx, err)
}
