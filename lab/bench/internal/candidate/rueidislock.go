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
		Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
			lockers := make([]Locker, 0, n)
			for range n { // each has its own connection: pushes come on it
				option.ClientOption = rueidis.ClientOption{InitAddress: []string{at.Addr}, ForceSingleClient: true}
				l, err := rueidislock.NewLocker(option)
				if err != nil {
					closeAll(lockers)
					return nil, err
				}
				lockers = append(lockers, rueidisLocker{l})
			}
			return lockers, nil
		},
	}
}

func closeAll(lockers []Locker) {
	for _, l := range lockers {
		l.Close()
	}
}

type rueidisLocker struct{ locker rueidislock.Locker }

// Do implements Locker.
func (r rueidisLocker) Do(ctx context.Context, name string, section func()) error {
	_, release, err := r.locker.WithContext(ctx, name)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	release() // returns when the keys are deleted
	return nil
}

// Hold implements Locker.
func (r rueidisLocker) Hold(ctx context.Context, name string) error {
	_, _, err := r.locker.WithContext(ctx, name)
	return err
}

// Close implements Locker.
func (r rueidisLocker) Close() { r.locker.Close() }
