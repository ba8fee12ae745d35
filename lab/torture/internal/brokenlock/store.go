// SPDX-License-Identifier: Apache-2.0

package brokenlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts of the sound lock. The token rises even after the server lost its data,
// because it is never below the server's clock.
var (
	acquire = redis.NewScript(`
		if redis.call('exists', KEYS[1]) == 1 then return 0 end
		local t = redis.call('time')
		local token = math.max(tonumber(redis.call('get', KEYS[2]) or 0) + 1, t[1] * 1000000 + t[2])
		redis.call('set', KEYS[2], string.format('%d', token))
		redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
		return token`)
	// acquireQueued removes a client from the queue that has not called for a TTL, and adds
	// the caller at the end (rpush) if it is not in the queue.
	acquireQueued = redis.NewScript(`
		local me = ARGV[1]
		redis.call('set', KEYS[3] .. ':' .. me, '', 'PX', ARGV[2])
		if not redis.call('lpos', KEYS[3], me) then redis.call(ARGV[3], KEYS[3], me) end
		while true do
			local head = redis.call('lindex', KEYS[3], 0)
			if head == me then break end
			if redis.call('exists', KEYS[3] .. ':' .. head) == 1 then return 0 end
			redis.call('lpop', KEYS[3])
		end
		if redis.call('exists', KEYS[1]) == 1 then return 0 end
		redis.call('lpop', KEYS[3])
		local t = redis.call('time')
		local token = math.max(tonumber(redis.call('get', KEYS[2]) or 0) + 1, t[1] * 1000000 + t[2])
		redis.call('set', KEYS[2], string.format('%d', token))
		redis.call('set', KEYS[1], me, 'PX', ARGV[2])
		return token`)
	extend = redis.NewScript(`
		if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
		return redis.call('pexpire', KEYS[1], ARGV[2])`)
	release = redis.NewScript(`
		if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
		redis.call('publish', KEYS[1] .. ':free', '')
		return redis.call('del', KEYS[1])`)
)

// try asks once. It returns 0 if another client has the lock.
func (l *locks) try(ctx context.Context, name string) (int64, error) {
	if l.flaw != "token-after-lock" && l.flaw != "expiry-after-lock" { // they take their time in between
		var cancel context.CancelFunc
		ctx, cancel = l.call(ctx)
		defer cancel()
	}
	keys, px := []string{name, name + ":token"}, l.ttl.Milliseconds()
	switch l.flaw {
	case "queue-keeps-the-dead":
		if head, err := l.c.LIndex(ctx, name+":queue", 0).Result(); err != nil || head != l.id {
			return 0, ignoreNil(err)
		}
	case "check-then-set":
		if n, err := l.c.Exists(ctx, name).Result(); err != nil || n > 0 {
			return 0, err
		}
		return token(), l.c.Set(ctx, name, l.id, l.ttl).Err()
	case "owner-by-host", "owner-by-prefix":
		if v, err := l.c.Get(ctx, name).Result(); err == nil && len(v) >= len(l.id) && v[:len(l.id)] == l.id {
			return token(), l.c.Set(ctx, name, l.id, l.ttl).Err()
		}
	case "no-expiry":
		return l.setNX(ctx, name, 0)
	case "ttl-in-seconds":
		return l.setNX(ctx, name, l.ttl*1000)
	case "expiry-after-lock":
		tok, err := l.setNX(ctx, name, 0)
		if err != nil || tok == 0 {
			return 0, err
		}
		time.Sleep(l.ttl / 2) // the window of the flaw, wider than it comes
		return tok, l.c.PExpire(ctx, name, l.ttl).Err()
	case "token-after-lock":
		tok, err := l.setNX(ctx, name, l.ttl)
		if err != nil || tok == 0 {
			return 0, err
		}
		time.Sleep(rand.N(2 * l.ttl)) // as above; and no process need be stopped
		return l.c.Incr(ctx, keys[1]).Result()
	case "token-counter-only":
		tok, err := l.setNX(ctx, name, l.ttl)
		if err != nil || tok == 0 {
			return 0, err
		}
		return l.c.Incr(ctx, keys[1]).Result()
	case "ttl-in-hundredths":
		px = max(px/100, 1)
	case SoundQueue:
		return acquireQueued.Run(ctx, l.c, append(keys, name+":queue"), l.id, px, "rpush").Int64()
	case "queue-newest-first":
		return acquireQueued.Run(ctx, l.c, append(keys, name+":queue"), l.id, px, "lpush").Int64()
	case "quorum-of-half", SoundQuorum:
		return l.tryNodes(ctx, name)
	}
	tok, err := acquire.Run(ctx, l.c, keys, l.id, px).Int64()
	if err != nil || tok == 0 {
		return 0, err
	}
	return l.dress(ctx, name, tok)
}

// dress is what is done with the token of a lock that was granted.
func (l *locks) dress(ctx context.Context, name string, tok int64) (int64, error) {
	switch l.flaw {
	case "queue-keeps-the-dead":
		return tok, l.c.LPop(ctx, name+":queue").Err()
	case "token-constant":
		return 1, nil
	case "token-of-the-second":
		return time.Now().Unix(), nil
	case "token-random":
		return 1 + rand.Int64N(1<<50), nil
	}
	return tok, nil
}

// token is for locks whose flaw is elsewhere.
func token() int64 { return time.Now().UnixMicro() }

func (l *locks) setNX(ctx context.Context, name string, ttl time.Duration) (int64, error) {
	ok, err := l.c.SetNX(ctx, name, l.id, ttl).Result()
	if err != nil || !ok {
		return 0, err
	}
	return token(), nil
}

func ignoreNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

// errGone: there was nothing to give back. Who hears "released" takes it for certain.
var errGone = errors.New("the lock was not held any more")

// release gives the lock back.
func (l *locks) release(ctx context.Context, name string) error {
	switch l.flaw {
	case "unlock-anybodys":
		return l.c.Del(ctx, name).Err()
	case "quorum-of-half", SoundQuorum:
		var err error
		for _, c := range l.nodes {
			err = release.Run(ctx, c, []string{name}, l.id).Err()
		}
		return err
	}
	n, err := release.Run(ctx, l.c, []string{name}, l.id).Int()
	if err == nil && n == 0 {
		return errGone
	}
	return err
}

// enqueue puts this client into the queue; leave removes it.
func (l *locks) enqueue(ctx context.Context, name string) error {
	if l.flaw == "queue-newest-first" {
		return nil // its first attempt puts it into the queue, as that of the sound lock does
	}
	ctx, cancel := l.call(ctx)
	defer cancel()
	return l.c.RPush(ctx, name+":queue", l.id).Err()
}

func (l *locks) leave(name string) {
	ctx, cancel := l.call(context.Background())
	defer cancel()
	_ = l.c.LRem(ctx, name+":queue", 0, l.id).Err()
}

// enough reports whether so many votes decide: a majority, or with the flaw two of
// five.
func (l *locks) enough(votes int) bool {
	if l.flaw == "quorum-of-half" {
		return votes >= len(l.nodes)/2
	}
	return votes > len(l.nodes)/2
}

// tryNodes asks all nodes, in any order.
func (l *locks) tryNodes(ctx context.Context, name string) (int64, error) {
	votes, most := 0, int64(0)
	for _, i := range rand.Perm(len(l.nodes)) {
		tok, err := acquire.Run(ctx, l.nodes[i], []string{name, name + ":token"}, l.id, l.ttl.Milliseconds()).Int64()
		if err == nil && tok > 0 {
			votes, most = votes+1, max(most, tok)
		}
	}
	if l.enough(votes) {
		return most, nil
	}
	return 0, l.release(ctx, name)
}

func (l *locks) extendNodes(ctx context.Context, name string, px int64) (bool, error) {
	votes := 0
	for _, c := range l.nodes {
		if ok, err := extend.Run(ctx, c, []string{name}, l.id, px).Bool(); err == nil && ok {
			votes++
		}
	}
	return l.enough(votes), nil
}
