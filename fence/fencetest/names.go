// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"crypto/rand"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/fence"
)

// nameCases are about names of locks that a resource may take for the same:
// because it cuts them, trims them, folds case or normalizes Unicode.
var nameCases = []spec{
	{"G5", "similar-names", nothing, similarNames},
	{"G5", "similar-names-apart", nothing, similarNamesApart},
}

// similar returns pairs of different names. No name comes twice, and none again
// with the next call.
func similar() [][2]string {
	base := "fencetest/" + rand.Text()[:8] + "/"
	long := func(n int, end string) string { return base + strings.Repeat("x", n-len(base)-len(end)) + end }
	return [][2]string{
		{long(33, "1"), long(33, "2")},
		{long(65, "1"), long(65, "2")},
		{long(256, "1"), long(256, "2")},
		{long(driver.MaxNameBytes, "1"), long(driver.MaxNameBytes, "2")},
		{long(driver.MaxNameBytes-1, "1"), long(driver.MaxNameBytes-1, "1") + "1"},
		{base + "first", " " + base + "first"},
		{base + "last", base + "last "},
		{base + "caf\u00e9", base + "cafe\u0301"}, // é in one rune, and as e with an accent
		{base + "ß", base + "ss"},
		{base + "case", base + "CASE"},
		{base + "per%41cent", base + "perAcent"},
		{base + "slash/a", base + "slash//a"},
	}
}

// A holder of one lock asks for what belongs to the other. Its token is far
// above and must not count. A name with a NUL is no lock's, and a mark may carry
// it: what keeps names as C does cuts it there.
func similarNames(t *scene) {
	nul := "fencetest/" + rand.Text()[:8]
	for _, pair := range append(similar(), [2]string{nul, nul + "\x00b"}) {
		v, stranger := t.valueOf(pair[0]), t.new
		stranger.lock, stranger.token = pair[1], t.new.token+1_000_000
		t.refused(t.startEnter(v, stranger, 0).wait(), fence.ErrWrongLock)
		t.refused(t.startWrite(v, stranger, "strange", 0).wait(), fence.ErrWrongLock)
		t.reads(v, "")
		t.enter(v, t.old)
		t.write(v, t.old, "a")
		t.reads(v, "a")
	}
}

// Two values, one for each lock. The fence of one must not be that of the other.
func similarNamesApart(t *scene) {
	for _, pair := range similar() {
		one, first := t.valueOf(pair[0]), t.old
		first.lock = pair[0]
		two, second := t.valueOf(pair[1]), t.new
		t.enter(two, second)
		t.write(two, second, "two")
		t.enter(one, first)
		t.write(one, first, "one")
		t.reads(two, "two")
		t.reads(one, "one")
		t.write(two, second, "two again")
	}
}
