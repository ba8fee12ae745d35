// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// TestLayoutKeepsWhatIsNew: a later version may add elements to a claim, and this version
// writes them back, whether the claim is granted or queued, although it is plain otherwise.
func TestLayoutKeepsWhatIsNew(t *testing.T) {
	l := newLayout(t)
	for _, who := range []string{"ann", "bob", "eve"} {
		l.open(who)
	}
	l.attempt("ann", 1, driver.Terms{MaxHold: time.Hour}, driver.Granted)
	l.attempt("bob", 1, driver.Terms{MaxHold: time.Hour}, driver.Queued)
	l.later("lx", true)
	l.later("wx\x00"+string(make([]byte, 6)), false)

	l.attempt("eve", 1, driver.Terms{}, driver.Queued) // the grant is written again
	l.wantLater("a claim is queued", "lx")
	l.withdraw("eve", 1, false)
	l.wantLater("a queued claim is withdrawn", "lx")
	l.withdraw("ann", 1, false)
	l.attempt("bob", 1, driver.Terms{}, driver.Granted)
	l.wantLater("a handoff", "lx")
	l.attempt("eve", 2, driver.Terms{}, driver.Queued)
	l.wantLater("a claim is queued behind it", "lx")
}

// later makes the claim of a field one that a later version wrote: plain, with an element
// more than this version has.
func (l *layout) later(field string, grants bool) {
	l.t.Helper()
	l.must(l.plain.Eval(l.ctx, `local all = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1]))
		local e = ARGV[2] == '1' and all[1] or all
		e[9], e[13], e[17], e[18] = 0, 0, 0, 'new'
		redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(all))
		return 1`, []string{l.bucket}, field, grants).Err())
}

// wantLater fails unless the claim of a field still has the element that later added.
func (l *layout) wantLater(after, field string) {
	l.t.Helper()
	raw, err := l.plain.HGet(l.ctx, l.bucket, field).Result()
	l.must(err)
	if strings.HasPrefix(raw, "X") || strings.HasPrefix(raw, "Y") || !strings.Contains(l.array(field), `"x",0,"new"`) {
		l.t.Fatalf("after %s the claim has lost the element that this version does not know: %q", after, raw)
	}
}
