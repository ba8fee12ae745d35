// SPDX-License-Identifier: Apache-2.0

package candidate

import "context"

// FencelockReaders is FencelockRueidis with RLock instead of Lock. It is not in All: what
// excludes no other is not compared with locks.
var FencelockReaders = &Candidate{
	Name: "fencelock-readers", Server: "redis", Settings: FencelockRueidis.Settings, Waits: true,
	Plain: listRequests, Parts: listParts, Overcounted: listOvercounted,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		store, closeStore, err := RueidisStore(at.Addr, n)
		if err != nil {
			return nil, err
		}
		lockers, err := openOurs(store, n, closeStore)
		for i, l := range lockers {
			lockers[i] = reader{l.(*ours)}
		}
		return lockers, err
	},
}

// reader is ours, sharing every lock.
type reader struct{ *ours }

// Do implements Locker.
func (r reader) Do(ctx context.Context, name string, section func()) error {
	l, err := r.client.RWMutex(name).RLock(ctx)
	if err != nil {
		return err
	}
	if section != nil {
		section()
	}
	return l.Unlock(context.WithoutCancel(ctx))
}

// Hold implements Locker.
func (r reader) Hold(ctx context.Context, name string) error {
	_, err := r.client.RWMutex(name).RLock(ctx)
	return err
}
