// SPDX-License-Identifier: Apache-2.0

package book

import (
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Status shows the lock. Settle comes first.
func (b *Book) Status(name string) driver.Status {
	st := driver.Status{Name: name, Waiting: len(b.Queue), Limit: b.Limit, Grace: micros(b.Grace())}
	for _, g := range b.Grants {
		st.Holders = append(st.Holders, b.holder(&g))
	}
	for _, c := range b.Queue[:min(len(b.Queue), driver.MaxWaitersReported)] {
		st.Waiters = append(st.Waiters, driver.Waiter{
			Claim: c.id(), Mode: c.mode(), Weight: c.weight(), Record: c.record(), Age: micros(max(0, b.Now-c.Since)),
		})
	}
	return st
}

func (b *Book) holder(g *Claim) driver.Holder {
	return driver.Holder{
		Claim: g.id(), Token: g.Token(), Mode: g.mode(), Weight: g.weight(), Reentry: g.Reentry, Record: g.record(),
		Age: micros(max(0, b.Now-g.Since)), EndsIn: b.endsIn(g), Kept: g.Session == "", Linger: g.linger(),
	}
}

// endsIn is when a grant ends if its session is not kept alive again.
func (b *Book) endsIn(g *Claim) time.Duration {
	end := max(b.Sessions[g.Session].Ends, g.MinEnd)
	if g.MaxEnd != 0 && (g.Session == "" || g.MaxEnd < end) {
		end = g.MaxEnd
	}
	return micros(max(0, end-b.Now))
}

// soonestEnd is when the first of those who have the lock must have ended.
func (b *Book) soonestEnd() (soonest time.Duration) {
	for i := range b.Grants {
		if d := b.endsIn(&b.Grants[i]); i == 0 || d < soonest {
			soonest = d
		}
	}
	return soonest
}
