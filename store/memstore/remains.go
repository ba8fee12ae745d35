// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"github.com/fencelock/fencelock/internal/testhook"
)

func init() {
	testhook.MemstoreRemains = func(store any) testhook.Remains { return store.(*Store).remains() }
	testhook.MemstoreGrants = func(snapshot any) []testhook.Grant { return snapshot.(*Snapshot).grants() }
}

// grants returns the grants that the snapshot has. A nil snapshot has none.
func (snap *Snapshot) grants() (all []testhook.Grant) {
	if snap == nil {
		return nil
	}
	for _, sh := range snap.shards {
		for id, l := range sh.sessions {
			for _, e := range l.claims {
				if e.granted {
					all = append(all, testhook.Grant{Session: id, Name: e.claim.Name, Token: e.token})
				}
			}
		}
	}
	return all
}

// remains returns what the store keeps.
func (s *Store) remains() (all testhook.Remains) {
	for _, sh := range s.shards {
		sh.mu.Lock()
		sh.remains(&all)
		sh.mu.Unlock()
	}
	return all
}

func (sh *shard) remains(all *testhook.Remains) {
	sh.sweep()
	all.Reclaimed += len(sh.reclaimed)
	for id, l := range sh.sessions {
		one := testhook.Session{ID: id, Tombstones: len(l.tombstoned), Ended: len(l.spent), Broken: len(l.broken)}
		for seq, e := range l.claims {
			one.Claims = append(one.Claims, seq)
			if e.granted {
				one.Granted = append(one.Granted, e.claim.Name)
			} else {
				one.Queued = append(one.Queued, e.claim.Name)
			}
		}
		all.Sessions = append(all.Sessions, one)
	}
	for name, l := range sh.locks {
		if len(l.grants) == 0 && len(l.queue) == 0 {
			all.Empty = append(all.Empty, name)
		}
		for _, e := range l.grants {
			if e.live == nil {
				all.Kept = append(all.Kept, name)
			}
		}
	}
}
