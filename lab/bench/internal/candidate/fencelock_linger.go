// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"time"

	"github.com/fencelock/fencelock"
)

// FencelockLinger is FencelockRueidis with locks that linger in their process.
var FencelockLinger = &Candidate{
	Name: "fencelock-linger", Server: "redis", Bare: "bare-rueidis", Settings: FencelockRueidis.Settings + "; Linger 10 s", Waits: true,
	Plain: append([]string{"unsubscribe"}, listRequests...), Parts: listParts, Overcounted: listOvercounted,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		store, closeStore, err := RueidisStore(at.Addr, n)
		if err != nil {
			return nil, err
		}
		lockers, err := openOurs(store, n, closeStore)
		for i, l := range lockers {
			lockers[i] = lingerer{l.(*ours)}
		}
		return lockers, err
	},
}

// lingerer is ours, keeping every lock for a while.
type lingerer struct{ *ours }

// Do implements Locker.
func (l lingerer) Do(ctx context.Context, name string, section func()) error {
	held, err := l.client.Mutex(name, fencelock.Linger(10*time.Second)).Lock(ctx)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return held.Unlock(context.WithoutCancel(ctx))
}
