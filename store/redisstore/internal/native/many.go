// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// fewPlain is from how many operations on a batch is a script, many.lua. The server needs about
// as long for it as for the plain commands; the client writes two words for an acquisition
// instead of eight, and reads one reply for all operations.
const fewPlain = 8

// callMany sends the operations of a batch as one script. None is done if the server does not
// know the script.
func (f *fast) callMany(ctx context.Context, next *batch) error {
	script := f.s.proof.scripts[manyScript]
	releases := next.words(f)
	reply, err := f.s.store.client.Eval(ctx, script, next.keys, next.args)
	switch {
	case errors.Is(err, rediscmd.ErrNoScript):
		f.s.proof.lost()
		return nil
	case err == nil:
		till, err := next.readMany(reply)
		if err != nil {
			return err
		}
		f.fresh(till)
		f.judge(next, f.alive())
		return nil
	case releases > 0 && ctx.Err() == nil && !errors.Is(err, driver.ErrUnknown):
		// Nothing was done: the memory is full, or the slot moves. Releases pass then.
		f.callReleases(ctx, next)
	}
	return err
}

// words makes the keys and arguments of many.lua, and returns how many releases there are.
func (next *batch) words(f *fast) (releases int) {
	next.keys = append(next.keys[:0], f.bucket, f.tickets, f.none)
	next.args = append(next.args[:0], f.session, f.s.tail, "")
	var text strings.Builder
	text.Grow(len(next.operations) * (len(f.lists) + 32))
	for _, o := range next.operations {
		if o.release {
			next.word(&text, f, o)
			releases++
		}
	}
	next.args[2] = strconv.Itoa(releases)
	for _, o := range next.operations {
		if !o.release {
			next.word(&text, f, o)
		}
	}
	return releases
}

// word adds the key and the argument of an operation. The text has the keys of all: a string
// for each would cost more than the rest of the words.
func (next *batch) word(text *strings.Builder, f *fast, o *operation) {
	from := text.Len()
	text.WriteString(f.lists)
	text.WriteString(o.name)
	next.keys = append(next.keys, text.String()[from:])
	next.args = append(next.args, o.element)
}

// readMany gives the operations their replies, and returns until when the marker counts.
func (next *batch) readMany(reply []any) (till int64, err error) {
	var text string
	if len(reply) == 1 {
		text, _ = reply[0].(string)
	}
	for _, release := range []bool{true, false} {
		for _, o := range next.operations {
			if o.release != release {
				continue
			}
			var word string
			word, text, _ = strings.Cut(text, " ")
			n, err := strconv.ParseInt(word, 10, 64)
			switch {
			case err != nil:
				return 0, errors.Join(driver.ErrUnknown, rediscmd.ErrShort)
			case n == 0:
			case release:
				o.result = released
			default:
				o.result, o.ticket = granted, n
			}
			o.answered = true
		}
	}
	if till, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, errors.Join(driver.ErrUnknown, rediscmd.ErrShort)
	}
	return till, nil
}
