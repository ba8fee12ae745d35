// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"strconv"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// call sends the operations, releases first: a claim in the same batch may be for the same lock.
func (f *fast) call(ctx context.Context, next *batch) error {
	if len(next.operations) >= f.few {
		return f.callMany(ctx, next)
	}
	return f.callPlain(ctx, next)
}

// callPlain sends the operations as plain commands.
func (f *fast) callPlain(ctx context.Context, next *batch) error {
	c := &next.commands
	releases := next.addReleases(f, c)
	claims := len(next.operations) - releases
	if claims > 0 {
		next.addClaims(f, c)
	}
	err := f.s.store.client.Send(ctx, c)
	switch {
	case err == nil:
		next.readReleases(c)
		if claims > 0 {
			f.judge(next, f.counts(next.readClaims(c)))
		}
		return c.Err()
	case releases == 0 || claims == 0 || errors.Is(err, driver.ErrUnknown) || ctx.Err() != nil:
		return err
	case c.Rest() > 0: // only the transaction failed
		next.readReleases(c)
		return err
	}
	// The claims were rejected, for want of memory, and the library had sent all in one transaction.
	f.callReleases(ctx, next)
	return err
}

// callReleases sends the releases without the claims.
func (f *fast) callReleases(ctx context.Context, next *batch) {
	var alone rediscmd.Commands
	next.addReleases(f, &alone)
	if f.s.store.client.Send(ctx, &alone) == nil {
		next.readReleases(&alone)
	}
}

// addReleases adds the commands of releases, which need no transaction, and returns how many
// releases there are.
func (next *batch) addReleases(f *fast, c *rediscmd.Commands) (n int) {
	for _, o := range next.operations {
		if o.release {
			list := f.lists + o.name
			c.Add("LREM", list, "1", strconv.FormatInt(o.ticket, 10))
			c.Add("LREM", list, "1", o.element)
			c.Add("LLEN", list)
			n++
		}
	}
	return n
}

// addClaims adds the transaction of the claims.
func (next *batch) addClaims(f *fast, c *rediscmd.Commands) {
	c.Transaction, c.Outside = true, c.Len()
	for _, o := range next.operations {
		if !o.release {
			list := f.lists + o.name
			c.Add("LMOVE", f.tickets, list, "LEFT", "RIGHT")
			c.Add("RPUSH", list, o.element)
		}
	}
	read := []string{"HMGET", f.bucket, "m", f.session}
	if next.marks = f.marks.Load(); next.marks {
		read = append(read, next.markFields()...)
	}
	c.Add(read...)
	c.Add("SCRIPT", "EXISTS", f.proven)
}

// markFields are the fields of the bucket that the marks of the claims have.
func (next *batch) markFields() (fields []string) {
	for _, o := range next.operations {
		if !o.release {
			fields = append(fields, "b"+o.element[7:29])
		}
	}
	return fields
}

// readReleases gives the releases their replies.
func (next *batch) readReleases(c *rediscmd.Commands) {
	for _, o := range next.operations {
		if o.release {
			ticket, claim, length := c.Number(), c.Number(), c.Number()
			switch {
			case ticket != 1 || claim != 1:
			case length > 0:
				o.result = passing
			default:
				o.result = released
			}
			o.answered = c.Err() == nil
		}
	}
}

// readClaims gives the claims their replies, and returns what shows whether they count.
func (next *batch) readClaims(c *rediscmd.Commands) evidence {
	for _, o := range next.operations {
		if !o.release {
			o.ticket, o.length, o.result = c.Number(), c.Number(), inList
			if o.ticket > 0 && o.length == 2 {
				o.result = granted
			}
		}
	}
	e := evidence{marker: c.Text(), session: c.Text()}
	for _, o := range next.operations {
		if !o.release {
			o.marked = e.marks() && !next.marks || next.marks && c.Text() != ""
		}
	}
	e.proven = c.Number() == 1
	return e
}

// judge gives claims up that do not count, and notes what the replies show about tickets.
func (f *fast) judge(next *batch, counts bool) {
	for _, o := range next.operations {
		if o.release {
			continue
		}
		if o.ticket > 0 && o.ticket%refillEvery == 0 {
			f.refill()
		}
		if counts && !o.marked {
			continue
		}
		if o.ticket = 0; o.result == granted {
			o.result = inList
		}
	}
}
