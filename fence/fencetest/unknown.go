// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"sync"

	"github.com/fencelock/fencelock/fence"
)

var unknownCases = []spec{
	{"G7", "lost-reply", nothing, lostReply},
	{"G7", "lost-reply-then-newer", nothing, lostReplyThenNewer},
	{"G7", "lost-reply-overtaken", nothing, lostReplyOvertaken},
}

// lossy returns a fresh value whose replies can be lost.
func (t *scene) lossy() *Value {
	v := t.value()
	if v.LoseReply == nil {
		t.skip("needs Value.LoseReply")
	}
	return v
}

// lose writes and loses the answer.
func (t *scene) lose(v *Value, value string) {
	c := t.start(t.old, "writing "+value+" with a lost reply", 0,
		func(ctx context.Context) (string, error) { return "", v.LoseReply(ctx, value) }).wait()
	if c.err == nil || errors.Is(c.err, fence.ErrStale) {
		t.fatalf("%s: the outcome is unknown, and the guard returned %v", c.what, c.err)
	}
}

// The holder still holds the lock: it reads, and tries again.
func lostReply(t *scene) {
	v := t.lossy()
	t.enter(v, t.old)
	t.write(v, t.old, "before")
	t.lose(v, "after")
	if got := t.enter(v, t.old); got != "before" && got != "after" {
		t.fatalf("after a lost reply the value is %q, want what was there before or after", got)
	}
	t.write(v, t.old, "after")
	t.reads(v, "after")
}

// Between the lost reply and the retry another holder came in. That the first
// try was admitted does not help the second.
func lostReplyThenNewer(t *scene) {
	v := t.lossy()
	t.enter(v, t.old)
	t.write(v, t.old, "before")
	t.lose(v, "after")
	if got := t.enter(v, t.new); got != "before" && got != "after" {
		t.fatalf("after a lost reply the value is %q, want what was there before or after", got)
	}
	t.write(v, t.new, "new")
	t.refused(t.startWrite(v, t.old, "after", 0).wait(), fence.ErrStale)
	t.reads(v, "new")
}

// Another holder comes in at the moment of the loss, before the holder knows of
// it. A client that sends the write again by itself is refused then, and must not
// pass that on: the write was done.
func lostReplyOvertaken(t *scene) {
	v := t.lossy()
	t.enter(v, t.old)
	t.write(v, t.old, "before")
	var entry *call
	overtake := sync.OnceFunc(func() { entry = t.startEnter(v, t.new, 0).wait() })
	c := t.start(t.old, "writing after with a lost reply", 0, func(ctx context.Context) (string, error) {
		return "", v.LoseReply(context.WithValue(ctx, lostKey{}, overtake), "after")
	}).wait()
	if entry == nil {
		t.skip("needs Value.LoseReply to call Lost")
	}
	t.admitted(entry)
	if c.err == nil || errors.Is(c.err, fence.ErrStale) {
		t.fatalf("%s, and another holder entered before the retry: it read %q, and the guard returned %v", c.what, entry.value, c.err)
	}
	t.refused(t.startWrite(v, t.old, "after", 0).wait(), fence.ErrStale)
	t.reads(v, entry.value)
}
