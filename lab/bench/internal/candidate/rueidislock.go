// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// RueidislockDefault is rueidislock as it comes, with two settings that keep a
// slow reply of a busy machine from ending a wait for good.
var RueidislockDefault = newRueidislock("rueidislock",
	"KeyMajority 2 (default), KeyValidity 8 s, TryNextAfter 1 s", rueidislock.LockerOption{})

// RueidislockFast is rueidislock as its README advises for one server.
var RueidislockFast = newRueidislock("rueidislock-fast",
	"KeyMajority 1, NoLoopTracking, KeyValidity 8 s, TryNextAfter 1 s",
	rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true})

func newRueidislock(name, settings string, option rueidislock.LockerOption) *Candidate {
	option.KeyValidity, option.TryNextAfter = 8*time.Second, time.Second
	return &Candidate{
		Name: name, Server: "redis", Bare: "bare-rueidis", Settings: settings, Waits: true,
		Open: each(func(_ context.Context, addr string) (Locker, error) { // each has its own connection: pushes come on it
			option := option
			option.ClientOption = rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
			l, err := rueidislock.NewLocker(option)
			return rueidisLocker{l}, err
		}),
	}
}

type rueidisLocker struct{ locker rueidislock.Locker }

// Lock implements Locker.
func (r rueidisLocker) Lock(ctx context.Context, name string) (Held, error) {
	_, release, err := r.locker.WithContext(ctx, name)
	return rueidisLock(release), err
}

type rueidisLock func()

// Unlock implements Held. It returns when the keys are deleted.
func (release rueidisLock) Unlock(context.Context) error { release(); return nil }

// Close implements Locker.
func (r rueidisLocker) Close() { r.locker.Close() }
