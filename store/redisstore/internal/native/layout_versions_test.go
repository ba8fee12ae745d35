// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// TestLayoutKeepsWhatIsNew: a later version may add elements to a claim, and this version
// writes them back, whether the claim is granted or queued, although it is plain otherwise.
func TestLayoutKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	for _, who := range []string{"ann", "bob", "eve"} {
		l.open(who)
	}
	l.attempt("ann", 1, driver.Terms{MaxHold: time.Hour}, driver.Granted)
	l.attempt("bob", 1, driver.Terms{MaxHold: time.Hour}, driver.Queued)
	l.later(1)
	l.later(3)

	l.attempt("eve", 1, driver.Terms{}, driver.Queued)
	l.wantLater("a claim is queued")
	l.withdraw("eve", 1, false)
	l.wantLater("a queued claim is withdrawn")
	l.withdraw("ann", 1, false)
	l.attempt("bob", 1, driver.Terms{}, driver.Granted)
	l.wantLater("a handoff")
	l.attempt("eve", 2, driver.Terms{}, driver.Queued)
	l.wantLater("a claim is queued behind it")
}

// TestLayoutKeepsWhatIsNewInShared is the same for the grant of a shared lock, which is written
// again when it is only kept.
func TestLayoutKeepsWhatIsNewInShared(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	l.open("ann")
	l.open("bob")
	l.attempt("ann", 1, driver.Terms{Mode: driver.Shared, MinHold: time.Hour}, driver.Granted)
	l.attempt("bob", 1, driver.Terms{Mode: driver.Shared}, driver.Granted)
	id := l.ids["ann"]
	field := string(id[:]) + "\x00\x00\x00\x00\x00\x01"
	l.must(l.plain.Eval(l.ctx, `local e = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1]))
		e[17], e[18] = 0, 'new'
		redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(e))
		return 1`, []string{l.grants("x")}, field).Err())
	l.withdraw("ann", 1, false)
	all, err := l.plain.HGetAll(l.ctx, l.grants("x")).Result()
	l.must(err)
	for field, value := range all {
		if len(field) > 22 && strings.Contains(l.array(value, 0), `"new"`) {
			return
		}
	}
	t.Errorf("the grant that is kept has lost the element that this version does not know: %q", all)
}

// later makes the claim at a place of the list one that a later version wrote: plain, with an
// element more than this version has.
func (l *layout) later(at int) {
	l.t.Helper()
	l.must(l.plain.Eval(l.ctx, `local raw = redis.call('LINDEX', KEYS[1], ARGV[1])
		local letter, all = string.sub(raw, 1, 1), cmsgpack.unpack(string.sub(raw, 2))
		local e = letter == 'A' and all[1] or all
		e[9], e[13], e[17], e[18] = 0, 0, 0, 'new'
		redis.call('LSET', KEYS[1], ARGV[1], letter .. cmsgpack.pack(all))
		return 1`, []string{l.list("x")}, at).Err())
}

// wantLater fails unless the holder still has the element that later added.
func (l *layout) wantLater(after string) {
	l.t.Helper()
	raw := l.elements("x")[1]
	if raw[0] != 'A' || !strings.Contains(l.array(raw, 1), `"x",0,"new"`) {
		l.t.Fatalf("after %s the claim has lost the element that this version does not know: %q", after, raw)
	}
}
